"""One expression forward, another backward."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["forward_backward"]


def forward_backward(forward: tf.Tensor, backward: tf.Tensor) -> tf.Tensor:
    """Join two tensors: the value of one, the derivatives of the other.

    Parameters
    ----------
    forward
        The tensor whose value the result has, bit for bit (the sign of a zero, infinities,
        NaN and subnormal numbers included). Any floating-point or complex dtype, any shape.
        No derivative flows to it: what reaches the result through it alone gets None.
    backward
        The tensor whose derivatives the result has, of the same dtype and shape. Its value is
        never used in arithmetic, so the result stays finite where this one is not.

    Returns
    -------
    tf.Tensor
        Of the dtype and shape of the two. Derivatives of any order are those of ``backward``,
        in reverse mode (``tf.GradientTape``, ``tf.gradients``) and in forward mode
        (``tf.autodiff.ForwardAccumulator``), in eager mode, in a ``tf.function``, under XLA and
        in a graph of TensorFlow 1.

    Raises
    ------
    TypeError
        If one of the two is no tensor (a NumPy array, a number, a symbolic Keras tensor, a
        sparse or ragged tensor), or an integer one, or if the dtypes differ.
    ValueError
        If the shapes differ. Shapes that are unknown while a graph is built are compared when
        it runs: ``tf.errors.InvalidArgumentError``.

    Notes
    -----
    The value is that of ``tf.stop_gradient(forward) + (backward - tf.stop_gradient(backward))``,
    the straight-through form whose bracket is zero, without its arithmetic: the bracket is NaN
    where ``backward`` is infinite, and the sum loses the sign of a zero. The rule "pass the
    upstream gradient to ``backward``" is a custom gradient of two arguments instead.

    Inside a graph the rule is wrapped in a function of its own. There a custom gradient hides
    from a ``ForwardAccumulator`` that stands in the same graph (it would report a tangent of
    zero), but TensorFlow differentiates a *call* of a function as a whole, by its gradient.

    Examples
    --------
    >>> x = tf.Variable(1.5)
    >>> with tf.GradientTape() as tape:
    ...     y = forward_backward(forward=tf.sin(x), backward=x**3)
    >>> f"{y:.4f}", f"{tape.gradient(y, x):.4f}"
    ('0.9975', '6.7500')
    """
    try:
        f, b = _tensor(forward), _tensor(backward)
    except TypeError as error:
        raise TypeError(_needs(forward, backward)) from error
    if f.dtype != b.dtype or not (f.dtype.is_floating or f.dtype.is_complex):
        raise TypeError(_needs(forward, backward))
    if not f.shape.is_compatible_with(b.shape):
        raise ValueError(_needs(forward, backward))
    if tf.executing_eagerly():
        return _value_of_first(f, b)
    if not (f.shape.is_fully_defined() and b.shape.is_fully_defined()):
        same = tf.debugging.assert_equal(
            tf.shape(f), tf.shape(b), _needs(forward, backward)
        )
        with tf.control_dependencies([same] if same is not None else []):
            f = tf.identity(f)
    call = tf.function(_value_of_first, autograph=False).get_concrete_function(
        tf.TensorSpec(f.shape, f.dtype), tf.TensorSpec(b.shape, b.dtype)
    )
    return call(f, b)


@tf.custom_gradient
def _value_of_first(first: tf.Tensor, second: tf.Tensor):
    return tf.stop_gradient(first), lambda upstream: (None, upstream)


def _tensor(x: object) -> tf.Tensor:
    # Variables (tf's, and Keras's, which have __tf_tensor__) are read where they are used.
    if not isinstance(x, tf.Tensor | tf.Variable) and not hasattr(
        x, "__tf_tensor__"
    ):
        raise TypeError
    try:
        return tf.convert_to_tensor(x)
    except ValueError as error:  # a symbolic Keras tensor
        raise TypeError from error


def _needs(forward: object, backward: object) -> str:
    return (
        "forward_backward needs two floating-point tensors of one dtype and shape "
        "(inside a Keras model: in the call of a layer); "
        f"forward is {_describe(forward)}, backward is {_describe(backward)}."
    )


def _describe(x: object) -> str:
    name = type(x).__name__
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        dtype = getattr(x.dtype, "name", x.dtype)
        kind = "a tensor" if isinstance(x, tf.Tensor) else f"a {name}"
        return f"{kind} of dtype {dtype} and shape {x.shape}"
    return f"{x!r:.40} ({name})"
