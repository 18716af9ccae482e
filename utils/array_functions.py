"""Arrays: NumPy's functions as operations, and what is differentiated how.

Arrays add no calculus to `utils.rules`, but three more kinds of operations:

- `REDUCTIONS` make one number of many, and have a partial derivative with
  respect to each;
- `LINEAR` operations move numbers, and are their own derivative: what they do
  to a value they do to its tangent. Reverse mode runs their transpose;
- `BILINEAR` ones are linear in each of two arguments: the product rule.

What else NumPy's functions do is said in terms of these and of the elementary
functions. The transposes are made of operations too, so that reverse mode can
be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from utils.rules import one
from utils.tracing import FUNCTIONS, Traced, apply, bare, getitem, no_rule

__all__ = ["BILINEAR", "LINEAR", "REDUCTIONS", "kept_shape", "unbroadcast"]

# The operations. Arrays stand in front of the star, settings behind it.


def scatter(x, *, index, shape):
    """Add x, at index, to zeros: the transpose of getitem."""
    if isinstance(x, Traced):
        return apply(scatter, x, index=index, shape=shape)
    result = np.zeros(shape, x.dtype)
    np.add.at(result, index, x)
    return result


def reshape(x, *, shape):
    return np.reshape(x, shape)


def transpose(x, *, axes):
    return np.transpose(x, axes)


def broadcast(x, *, shape):
    return np.broadcast_to(x, shape)


def concatenate(*parts, axis):
    return np.concatenate(parts, axis)


def where(a, b, *, condition):
    return np.where(condition, a, b)


# NumPy's functions, made of operations.


def _reduction(function: Callable) -> Callable:
    def steps(a, axis=None, keepdims=False):
        axis = range(a.ndim) if axis is None else axis
        axis = normalize_axis_tuple(axis, a.ndim)
        return apply(function, a, axis=axis, keepdims=keepdims)

    return steps


def _transpose(a, axes=None):
    axes = range(a.ndim)[::-1] if axes is None else axes
    return apply(transpose, a, axes=normalize_axis_tuple(axes, a.ndim))


def _swapaxes(a, axis1, axis2):
    axes = list(range(a.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return np.transpose(a, axes)


def _concatenate(arrays, axis=0):
    parts = [a if isinstance(a, Traced) else np.asarray(a) for a in arrays]
    return apply(
        concatenate, *parts, axis=normalize_axis_index(axis, parts[0].ndim)
    )


def _stack(arrays, axis=0):
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis)


def _clip(a, a_min=None, a_max=None):
    a = a if a_min is None else np.maximum(a, a_min)
    return a if a_max is None else np.minimum(a, a_max)


def _dot(a, b):
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        raise no_rule("np.dot of more than two dimensions")
    return a @ b if np.ndim(a) and np.ndim(b) else a * b


def _squeeze(a, axis=None):
    return np.reshape(a, np.squeeze(bare(a), axis).shape)


def _expand_dims(a, axis):
    return np.reshape(a, np.expand_dims(bare(a), axis).shape)


def _where(condition, x, y):
    return apply(where, x, y, condition=bare(condition))


FUNCTIONS |= {
    np.sum: _reduction(np.sum),
    np.mean: _reduction(np.mean),
    np.max: _reduction(np.max),
    np.amax: _reduction(np.max),
    np.min: _reduction(np.min),
    np.amin: _reduction(np.min),
    np.reshape: lambda a, shape: apply(reshape, a, shape=shape),
    np.ravel: lambda a: np.reshape(a, -1),
    np.squeeze: _squeeze,
    np.expand_dims: _expand_dims,
    np.broadcast_to: lambda array, shape: apply(broadcast, array, shape=shape),
    np.transpose: _transpose,
    np.swapaxes: _swapaxes,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.where: _where,
    np.clip: _clip,
    np.dot: _dot,
    np.outer: lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1)),
}


# The derivatives.


def kept_shape(x, axis):
    """Return the shape of a reduction of x along axes that are kept."""
    return tuple(1 if i in axis else n for i, n in enumerate(x.shape))


def _shares(x, y, axis):
    # Entries that attain the extreme share it equally.
    attained = x == y
    shares = attained / np.sum(attained, axis=axis, keepdims=True)
    return shares.astype(x.dtype)


#: {reduction: its partial}; that takes x, the result y in its `kept_shape`, and
#: the axes, and gives an array of the shape of x, or a number.
REDUCTIONS = {
    np.sum: one,
    np.mean: lambda x, y, axis: y.size / x.size,
    np.max: _shares,
    np.min: _shares,
}


def unbroadcast(adjoint, shape):
    """Sum over the axes along which broadcasting repeated an array."""
    if adjoint.shape == shape:
        return adjoint
    new = adjoint.ndim - len(shape)
    repeated = (new + i for i, n in enumerate(shape) if n == 1)
    return np.reshape(np.sum(adjoint, axis=(*range(new), *repeated)), shape)


def _part(i, adjoint, *parts, axis):
    start = sum(part.shape[axis] for part in parts[:i])
    stop = start + parts[i].shape[axis]
    return adjoint[(slice(None),) * axis + (slice(start, stop),)]


def _side(i, adjoint, *sides, condition):
    side = np.where(condition, *((adjoint, 0) if i == 0 else (0, adjoint)))
    return unbroadcast(side, np.shape(sides[i]))


def _matmul(i, adjoint, a, b):
    # A vector is a matrix of one row before @, and one of one column behind it.
    rows = a if a.ndim > 1 else np.reshape(a, (1, -1))
    columns = b if b.ndim > 1 else np.reshape(b, (-1, 1))
    if a.ndim == 1 or b.ndim == 1:
        stack = adjoint.shape[: adjoint.ndim - (a.ndim > 1) - (b.ndim > 1)]
        both = (rows.shape[-2], columns.shape[-1])
        adjoint = np.reshape(adjoint, stack + both)
    if i == 0:
        part = unbroadcast(adjoint @ np.swapaxes(columns, -1, -2), rows.shape)
    else:
        part = unbroadcast(np.swapaxes(rows, -1, -2) @ adjoint, columns.shape)
    own = (a, b)[i]
    return part if own.ndim > 1 else np.reshape(part, own.shape)


def _scatter(i, adjoint, x, index):
    return scatter(adjoint, index=index, shape=x.shape)


def _transpose_back(i, adjoint, x, axes):
    return np.transpose(adjoint, np.argsort(axes))


#: {operation: its transpose}; that takes the place i of an argument, an adjoint
#: of the result, the arguments and the settings, and gives an adjoint of
#: argument i.
LINEAR = {
    getitem: _scatter,
    scatter: lambda i, adjoint, x, index, shape: adjoint[index],
    reshape: lambda i, adjoint, x, shape: np.reshape(adjoint, x.shape),
    broadcast: lambda i, adjoint, x, shape: unbroadcast(adjoint, x.shape),
    transpose: _transpose_back,
    concatenate: _part,
    where: _side,
}

#: The same, for operations that are linear in either of two arguments.
BILINEAR = {np.matmul: _matmul}
