"""Find out why a gradient is None, zero, NaN or infinite, and which line did it.

`explain_gradient` traces a function of TensorFlow to a graph and runs it op by
op, once forward and once backward (`utils.op_by_op`). Each disease then has an
address: None an op that lets nothing through, zero an op whose slope is zero,
NaN and inf an op that made the first bad number. An op remembers the line of
code that created it.

What a graph does not show (NumPy, a Python number made of a tensor) makes the
tracing fail. Then f is run eagerly, and what the tape says is compared with how
f moves when an input does: a likelihood, and said as one.
"""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from utils.arguments import function, refused
from utils.explanation import (
    Explanation,
    Finding,
    Place,
    first_bad,
    is_bad,
    is_reader,
    lines_of,
    place_of,
)
from utils.op_by_op import Run, Use, Value, array_of, has_slope

__all__ = ["explain_gradient"]

_NOTHING = (
    "f returned {!r:.60}; accepted are tensors (is a return missing, or is it a "
    "gradient that is None?)"
)
# Where only some entries are zero these are no news.
_USUAL = "Mul MatMul BatchMatMulV2 Conv2D Einsum AddV2 BiasAdd Relu Relu6"


def explain_gradient(
    f: Callable, *inputs: Any, variables: Iterable = ()
) -> Explanation:
    """Say for each input of f whether its gradient is fine, and if not, why.

    Parameters
    ----------
    f
        A function that returns a tensor, or several, which are summed as a tape
        sums them; a ``tf.function``; a Keras layer or model. A compiled model
        takes ``(x, y)`` and stands for its loss in training.
    *inputs
        The arguments of f, at which it is explained: tensors, arrays and
        floating-point numbers; variables, which f gets as they are. All else is
        handed to f and not reported, but for integers, which have no slope.
    variables
        Variables to report even if f does not use them. Trainable ones that f
        uses, and those of a layer or model, are reported anyway.

    Returns
    -------
    Explanation
        Prints as a table; has ``findings``, ``["name"]`` and ``draw``.

    Raises
    ------
    TypeError
        If f cannot be called, or returns nothing that is a number, or
        ``variables`` has something else.
    ValueError
        If there is nothing to report: no input, and no variable in f.

    Notes
    -----
    Costs one run and one backward pass, op by op, and puts back what f assigns
    to variables. If f cannot be traced or followed, ``problem`` says why, and f
    is run eagerly: one gradient, and four values for each input.

    In a function compiled by XLA each op is compiled by itself, which takes a
    fraction of a second. A branch of ``tf.cond`` without a path is None here, as
    in eager mode; a graph says 0 if the other branch has a path.

    Examples
    --------
    >>> def f(x):
    ...     return tf.where(x > 0, tf.math.log(x), 0.0)
    >>> explain_gradient(f, tf.constant([0.0, 1.0]))  # doctest: +ELLIPSIS
    value 0; 6 ops run one by one
    NaN         x (1 of 2)
      Log, line 2 of <doctest ...>:
        return tf.where(x > 0, tf.math.log(x), 0.0)
      at [0]: inputs 0, output -inf, upstream 0, contribution nan
      Its slope is infinite here. Times an upstream of 0 that is
      NaN: what is not used is differentiated too. Make the input
      safe: where(ok, x, 1).
    """
    function(f)
    variables = _variables(variables)
    try:
        with _quietly():
            return _explain(_Asked(f, inputs, variables))
    except _Nothing as nothing:
        raise TypeError(str(nothing)) from None


def _explain(asked: _Asked) -> Explanation:
    try:
        graph = asked.trace()
    except _Nothing:
        raise
    except Exception as error:
        return _by_moving(asked, "traced", error)
    asked.require_something()
    roots = {name: _root(x) for name, x in asked.given.items()}
    run = Run({name: x for name, x in roots.items() if x is not None})
    try:
        with _kept(asked.state):
            arguments = [run.roots[name] for name in asked.tensors]
            results = run.forward(graph, arguments)
            run.backward(results)
    except Exception as error:
        return _by_moving(asked, "followed op by op", error)
    value = _total([result.tensor for result in results])
    findings = tuple(_finding(asked, name, run) for name in asked.given)
    bad = [r for r in results if is_bad(array_of(r.tensor))]
    places = tuple(first_bad(result) for result in bad[:1])
    return Explanation(findings, value, len(run.steps), 1, places, "", run)


def _variables(given: Any) -> list:
    """Return the variables in a list, or refuse what is none."""
    listed = isinstance(given, Iterable) and _root(given) is None
    variables = [*given] if listed else [None]
    if not all(isinstance(_unwrapped(v), tf.Variable) for v in variables):
        raise refused(given, "variables", "a list of variables")
    return variables


class _Nothing(Exception):
    """f returned nothing that could have a gradient."""


class _Asked:
    """What is asked: a function, what can be moved, what is reported.

    ``leaves`` are the arguments of f by name, ``given`` those to report and the
    variables, ``tensors`` those to move; ``state`` is what f might change.
    """

    def __init__(self, f: Callable, inputs: tuple, variables: Iterable) -> None:
        inside = _used_inside(f)
        labels = _argument_names(f, inputs)
        variables = [*variables, *getattr(f, "trainable_variables", ())]
        if getattr(f, "compiled", False) and len(inputs) == 2:
            model, (x, y), inputs = f, inputs, inputs[:1]

            def f(x):
                return model.compute_loss(x, y, model(x, training=True))

        self.f, self.inputs = f, tuple(map(_numbers, inputs))
        self.names = {id(_unwrapped(x)): name for name, x in inside.items()}
        self.outside = [n for n in inside if isinstance(inside[n], tf.Tensor)]
        self.state: list[tf.Variable] = []
        self.leaves: list[tuple[str, Any]] = []
        for label, x in zip(labels, self.inputs, strict=False):
            for i, leaf in enumerate(tf.nest.flatten(x)):
                name = f"{label}[{i}]" if tf.nest.is_nested(x) else label
                self.leaves.append((name, _numbers(leaf)))
        self.given: dict[str, Any] = {}
        for name, x in self.leaves:
            if type(x) is int or _root(x) is not None:
                self.given[name] = x
        is_tensor = {n: isinstance(x, tf.Tensor) for n, x in self.given.items()}
        self.tensors = {n: self.given[n] for n, yes in is_tensor.items() if yes}
        self.add(variables)

    def add(self, variables: Iterable) -> None:
        """Report these variables too, under the names that the reader knows."""
        for v in variables:
            if any(_root(v) is _root(x) for x in self.given.values()):
                continue
            name = getattr(v, "path", v.name).removesuffix(":0")
            name = self.names.get(id(_unwrapped(v)), name)
            again = sum(n.split(" #")[0] == name for n in self.given)
            self.given[f"{name} #{again + 1}" if again else name] = v

    def require_something(self) -> None:
        """Refuse to report on nothing."""
        if not self.given:
            raise ValueError(
                "f has no tensor among its inputs and uses no trainable "
                "variable; give one, or name variables=[...]"
            )

    def call(self, *tensors: tf.Tensor) -> Any:
        """Call f with other tensors in the places of those given."""
        other = dict(zip(self.tensors, tensors, strict=True))
        leaves = [other.get(name, leaf) for name, leaf in self.leaves]
        return self.f(*tf.nest.pack_sequence_as(self.inputs, leaves))

    def trace(self) -> tf.Graph:
        """Trace f as Python runs it, or by AutoGraph if it needs that."""
        specs = [
            tf.TensorSpec(
                x.shape, x.dtype, re.sub(r"\W+", "_", name).strip("_")
            )
            for name, x in self.tensors.items()
        ]
        traced = tf.function(self.call, autograph=False)
        try:
            concrete = traced.get_concrete_function(*specs)
        except tf.errors.OperatorNotAllowedInGraphError:
            self.f = tf.function(self.f)
            traced = tf.function(self.call, autograph=False)
            concrete = traced.get_concrete_function(*specs)
        if not concrete.outputs:
            raise _Nothing(_NOTHING.format(concrete.structured_outputs))
        graph = concrete.graph
        variables = {id(v.handle): v for v in graph.variables}
        order = [id(outer) for outer, _ in graph.captures]
        self.state = [variables[i] for i in order if i in variables]
        self.add(v for v in self.state if v.trainable)
        return graph


def _finding(asked: _Asked, name: str, run: Run) -> Finding:
    """Say what became of the gradient along one input."""
    given = asked.given[name]
    if note := _whole_number(given):
        return Finding(name, "None", None, (), note)
    root = run.roots[name]
    if not root.uses and root.adjoint is None:
        return Finding(name, "None", None, (), _unused(asked, name, root))
    cuts = _cuts(root)
    of_note = [use for use in cuts if not _is_usual(use)]
    if root.adjoint is None:
        return Finding(name, "None", None, _places("cut", of_note or cuts))
    g = array_of(root.adjoint)
    if is_bad(g):
        places = _places("bad", _trail(root, is_bad, _makes_bad))
        note = "" if places else "A sum of finite contributions overflows."
        disease = "NaN" if np.isnan(g).any() else "inf"
        return Finding(name, disease, g, places, note)
    zeros = _trail(root, _has_zero, _makes_zero) if _has_zero(g) else []
    if g.size and not g.any():
        return Finding(name, "zero", g, _places("zero", zeros))
    zeros = [use for use in zeros if use.step.op.type not in _USUAL.split()]
    frozen = not getattr(given, "trainable", True)
    notes = {
        "Not trainable: a tape has to be told to watch it.": frozen,
        "Not every path is whole:": of_note,
        "Not every entry gets a slope:": zeros,
    }
    note = " ".join(text for text, so in notes.items() if so)
    places = _places("cut", of_note) + _places("zero", zeros)
    return Finding(name, "fine", g, places, note)


def _whole_number(given: Any) -> str:
    dtype = tf.as_dtype(getattr(given, "dtype", tf.int32))
    if dtype.is_floating or dtype.is_complex:
        return ""
    return f"{dtype.name} has no slope; give a floating-point number."


def _unused(asked: _Asked, name: str, root: Value) -> str:
    """Guess why a path does not even begin."""
    if root.needed:
        return "f uses its shape, and not its values."
    note = "f does not use it."
    if _moves(asked, name, None):
        return (
            f"{note} Yet, run eagerly, the value of f moves with it: likely it "
            "goes through NumPy or Python there."
        )
    if asked.outside:
        names = ", ".join(asked.outside)
        note += (
            f" It uses {names}, made outside of f: what made it is not seen."
        )
    return note


def _cuts(root: Value) -> list[Use]:
    """Find where the paths from a value to the results are cut."""
    found, seen, stack = {}, {root}, [root]
    while stack:
        for use in stack.pop().uses:
            step = use.step
            if use.part is None and has_slope(use.value.tensor):
                # A custom gradient need not use its own forward pass.
                custom = "_gradient_op_type" in step.op.node_def.attr
                if not custom or all(part is None for part in step.parts):
                    found.setdefault(step.op, use)
            stack += [v for v in step.outputs if v not in seen]
            seen |= {*step.outputs}
    return [*found.values()]


def _trail(root: Value, bad: Callable, made: Callable) -> list[Use]:
    """Follow bad contributions from an input to the steps that made them."""
    found, seen, stack = {}, {root}, [root]
    while stack:
        value = stack.pop()
        for use in value.uses:
            if not use.live or use.part is None:
                continue
            part, back = array_of(use.part), []
            for v in use.step.outputs:
                if v.adjoint is not None:
                    back.append((v, array_of(v.adjoint)))
            if part is not None:
                ups = [up for _, up in back if up is not None]
                cancels = part.any() and not array_of(value.adjoint).any()
                if cancels or (bad(part) and ups and made(part, ups)):
                    found.setdefault(use.step.op, use)
                if not bad(part):
                    continue
            for v, up in back:
                if v not in seen and (up is None or bad(up)):
                    stack.append(v)
                    seen.add(v)
    return [*found.values()]


def _makes_bad(part: np.ndarray, ups: list[np.ndarray]) -> bool:
    return not any(map(is_bad, ups))


def _has_zero(array: np.ndarray) -> bool:
    return bool((array == 0).any())


def _makes_zero(part: np.ndarray, ups: list[np.ndarray]) -> bool:
    """Whether a contribution is 0 where the upstream is not."""
    for up in ups:
        if part.shape == up.shape:
            made = ((part == 0) & (up != 0)).any()
        else:
            made = up.any() and (not part.any() or not _has_zero(up))
        if made:
            return True
    return False


def _is_usual(use: Use) -> bool:
    """Whether a cut is no news: a comparison, or inside of a library."""
    op, called = use.step.op, lines_of(use.step.op)[1]
    inner = op.type == "StopGradient" and "stop_gradient" not in called[:1]
    return inner or {tensor.dtype for tensor in op.outputs} == {tf.bool}


def _places(kind: str, uses: list[Use]) -> tuple[Place, ...]:
    places = []
    for use in uses:
        place = place_of(kind, use.step, use)
        places.append(place)
        if kind == "bad" and is_bad(array_of(use.value.tensor)):
            places.append(first_bad(use.value))
    return tuple(places)


def _root(x: Any) -> tf.Tensor | None:
    """Return a tensor, or the handle of a variable of TensorFlow or Keras."""
    x = _unwrapped(x)
    if isinstance(x, tf.Variable):
        return x.handle
    return x if isinstance(x, tf.Tensor) else None


def _unwrapped(x: Any) -> Any:
    """Return the variable of TensorFlow inside a variable of Keras."""
    held = getattr(x, "value", None)
    return held if isinstance(held, tf.Variable) else x


def _numbers(x: Any) -> Any:
    """Turn arrays, floats and lists of numbers into tensors."""
    kinds = float | complex | np.ndarray | np.generic
    plain = int | float | complex
    listed = isinstance(x, list | tuple) and x
    listed = listed and all(isinstance(v, plain) for v in tf.nest.flatten(x))
    return tf.convert_to_tensor(x) if isinstance(x, kinds) or listed else x


def _argument_names(f: Callable, inputs: tuple) -> list[str]:
    """Return the names that f has for its arguments."""
    try:
        parameters = [*inspect.signature(f).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    ordered = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    names = [p.name for p in parameters if p.kind in ordered]
    more = range(len(names), len(inputs))
    return (names + [f"inputs[{i}]" for i in more])[: len(inputs)]


def _used_inside(f: Callable) -> dict[str, Any]:
    """Return the variables and tensors from outside that f has a name for."""
    try:
        inside = inspect.getclosurevars(getattr(f, "python_function", f))
    except TypeError:
        return {}
    known = {**inside.globals, **inside.nonlocals}
    return {name: x for name, x in known.items() if _root(x) is not None}


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep back what TensorFlow warns of while f is taken to pieces."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _kept(variables: Iterable[tf.Variable]) -> Iterator[None]:
    """Put the variables back to what they are now."""
    before = [(v, tf.identity(v)) for v in variables]
    try:
        yield
    finally:
        for v, value in before:
            v.assign(value)


def _by_moving(asked: _Asked, what: str, error: Exception) -> Explanation:
    """Run f eagerly, and compare what a tape says with how f moves."""
    reason, left = _reason(error)
    problem = f"f cannot be {what}: {reason}"
    try:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([*asked.tensors.values()])
            y = asked.call(*asked.tensors.values())
        value = _total(tf.nest.flatten(y))
    except _Nothing:
        raise
    except Exception:
        asked.require_something()
        unknown = tuple(Finding(name, "unknown") for name in asked.given)
        return Explanation(unknown, None, problem=problem)
    asked.state = [*tape.watched_variables()]
    asked.add(asked.state)
    asked.require_something()
    ys = [t for t in tf.nest.flatten(y) if isinstance(t, tf.Tensor)]
    findings = []
    for name, x in asked.given.items():
        g = tape.gradient(ys, x) if ys and _root(x) is not None else None
        g = None if g is None else array_of(tf.convert_to_tensor(g))
        differs, disease, note = _moves(asked, name, g), "fine", ""
        if g is None:
            disease = "None"
            note = "f moves with it" if differs else "f does not move with it"
            note = _whole_number(x) or f"{note}, when run eagerly."
        elif is_bad(g):
            disease = "NaN" if np.isnan(g).any() else "inf"
        elif differs:
            disease = "incomplete"
            note = "Run eagerly, f moves in another way than the gradient says."
        elif g.size and not g.any():
            disease = "zero"
        places = (left,) if differs and left else ()
        findings.append(Finding(name, disease, g, places, note))
    return Explanation(tuple(findings), value, 0, 1, problem=problem)


def _moves(asked: _Asked, name: str, claim: np.ndarray | None) -> bool:
    """Whether f moves along an input otherwise than its gradient says."""
    given = _unwrapped(asked.given[name])
    if _root(given) is None or not given.dtype.is_floating:
        return False
    x = given.numpy()
    random = np.random.default_rng(0)
    way = random.uniform(0.5, 1.5, x.shape) * random.choice([-1, 1], x.shape)
    eps = 2.0 ** {2: -8, 4: -23, 8: -52}[given.dtype.size]
    h = eps ** (1 / 3) * max(1.0, float(np.max(np.abs(x), initial=0)))

    def value(step: float) -> float:
        moved = tf.cast(x + step * h * way, given.dtype)
        is_variable = isinstance(given, tf.Variable)
        with _kept([*asked.state, *[given] * is_variable]):
            if is_variable:
                given.assign(moved)
            other = asked.tensors | ({} if is_variable else {name: moved})
            return _total(tf.nest.flatten(asked.call(*other.values())))

    try:
        low, high, middle, again = map(value, (-1, 1, 0, 0))
    except Exception:
        return False
    if low == high and isinstance(given, tf.Variable):
        return False  # f makes its own, say
    claimed = 0.0 if claim is None else np.sum(claim * way)
    measured = (high - low) / (2 * h)
    rough = (np.abs(again - middle) + 20 * eps * np.abs(middle)) / h
    wide = 0.02 * (np.abs(measured) + np.abs(claimed)) + rough
    return bool(np.abs(measured - claimed) > wide)


def _total(results: list) -> Any:
    """Sum all numbers in what f returned."""
    arrays = [np.asarray(y) for y in results if not isinstance(y, str | None)]
    if not (arrays := [a for a in arrays if a.dtype.kind in "biufcV"]):
        raise _Nothing(_NOTHING.format(results))
    return sum(np.sum(a, dtype=np.result_type(a, np.float64)) for a in arrays)


def _reason(error: Exception) -> tuple[str, Place | None]:
    """Say in one line why f could not be traced, and where a tensor left."""
    if autograph := getattr(error, "ag_error_metadata", None):
        text, stack = autograph.cause_message, autograph.translated_stack
    else:
        text = f"{type(error).__name__}: {error}"
        stack = reversed(traceback.extract_tb(error.__traceback__))
    text = re.sub(r"\{\{.*?\}\} ", "", text)
    reason = textwrap.shorten(text.split(". ")[0], 160)
    lines = [frame for frame in stack if is_reader(frame.filename)]
    left = any(word in text for word in ("ymbolic", "numpy()"))
    if not lines or not left:
        return reason, None
    frame = lines[0]
    code = linecache.getline(frame.filename, frame.lineno).strip()
    why = (
        "Likely a tensor leaves TensorFlow here, and what comes back is a "
        "constant. Stay with TensorFlow's ops."
    )
    where = frame.filename, frame.lineno, code
    return reason, Place("cut", "Python", "Python", *where, why)
