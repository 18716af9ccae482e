"""The rules of differentiation, once.

`PARTIALS` holds the elementary derivatives of school calculus: for each
function one partial derivative for each of its arguments, as a function of the
arguments and the result. The entry

    np.multiply: (lambda a, b, y: b, lambda a, b, y: a)

says that the derivative of y = a * b is b with respect to a, and a with
respect to b. Partials are made of NumPy's functions and Python's operators, so
whatever answers to these can be put in: a number, an array, a dual number, a
recorded variable, a symbol.

`utils.forward_mode` multiplies the partials by tangents on the way from the
inputs to the result, `utils.reverse_mode` by adjoints on the way back, and
`utils.symbolic` by other formulas. The rules are the same; what they are
multiplied by and in which order is not. Sums, products of matrices and what
only moves numbers about are in `utils.array_functions`.

**Kinks.** Where the slopes from the left and from the right differ, the rule
gives their mean, as a central difference does: 0 for ``abs`` at 0, and one half
for each argument of ``maximum`` and ``minimum`` where the two are equal.
(Entries that attain ``np.max`` or ``np.min`` have equal shares in it.) Means
come out right where kinks cancel in a sum, but no convention does for all
programs: max(max(x, 0), 0) - max(x, 0) is 0 for all x, and gets -1/4 at 0.

**Jumps.** ``sign``, ``floor`` and the like have slope 0, at their jumps too.

**Ends of the domain** are left to floating-point arithmetic and to NumPy's
warnings, which ``np.errstate`` governs: ``sqrt`` and ``log`` have slope inf at
0, ``hypot`` has NaN at (0, 0), and so has ``maximum`` at (inf, inf). Powers
need some thought: see the comments at `_power_a` and `_power_b`.
"""

from __future__ import annotations

import math
import operator

import numpy as np

__all__ = ["PARTIALS", "one"]


def one(*_):
    """Partial derivative 1, which need not be multiplied by."""
    return 1


def zero(*_):
    """Partial derivative 0, that of a step."""
    return 0


def _power_a(a, b, y):
    # b * a**(b - 1). At a = b = 0 that would be 0 times 0**-1, NaN: 1**-1 is taken.
    # There is no log of a in it: (-2)**3 is as good as 2**3.
    return b * (a + ((a == 0) & (b == 0))) ** (b - 1)


def _power_b(a, b, y):
    # y * log(a), and 0 where y == 0: there log(0 + 1) is taken, for 0**b is 0 for
    # all b > 0. NaN for a < 0, where a**b is real at whole b only.
    a = a if hasattr(a, "dtype") else y.dtype.type(a)  # keeps float32
    return y * np.log(a + (y == 0))


#: {function: its partial derivative with respect to each argument}; these take
#: the arguments and the result.
PARTIALS = {
    # arithmetic
    np.add: (one, one),
    np.subtract: (one, lambda a, b, y: -1),
    np.multiply: (lambda a, b, y: b, lambda a, b, y: a),
    np.divide: (lambda a, b, y: y.dtype.type(1) / b, lambda a, b, y: -y / b),
    np.negative: (lambda x, y: -1,),
    np.reciprocal: (lambda x, y: -y * y,),
    # powers and roots
    np.power: (_power_a, _power_b),
    np.square: (lambda x, y: 2 * x,),
    np.sqrt: (lambda x, y: 0.5 / y,),
    np.cbrt: (lambda x, y: 1 / (3 * y * y),),
    np.hypot: (lambda a, b, y: a / y, lambda a, b, y: b / y),
    # exponentials and logarithms
    np.exp: (lambda x, y: y,),
    np.exp2: (lambda x, y: y * math.log(2),),
    np.expm1: (lambda x, y: np.exp(x),),
    np.log: (lambda x, y: 1 / x,),
    np.log2: (lambda x, y: 1 / (x * math.log(2)),),
    np.log10: (lambda x, y: 1 / (x * math.log(10)),),
    np.log1p: (lambda x, y: 1 / (1 + x),),
    np.logaddexp: (
        lambda a, b, y: np.exp(a - y),
        lambda a, b, y: np.exp(b - y),
    ),
    # trigonometry
    np.sin: (lambda x, y: np.cos(x),),
    np.cos: (lambda x, y: -np.sin(x),),
    np.tan: (lambda x, y: 1 + y * y,),
    np.arcsin: (lambda x, y: 1 / np.sqrt((1 - x) * (1 + x)),),
    np.arccos: (lambda x, y: -1 / np.sqrt((1 - x) * (1 + x)),),
    np.arctan: (lambda x, y: 1 / (1 + x * x),),
    np.arctan2: (
        lambda a, b, y: b / (a * a + b * b),
        lambda a, b, y: -a / (a * a + b * b),
    ),
    # hyperbolic functions
    np.sinh: (lambda x, y: np.cosh(x),),
    np.cosh: (lambda x, y: np.sinh(x),),
    np.tanh: (lambda x, y: 1 - y * y,),
    np.arcsinh: (lambda x, y: 1 / np.sqrt(1 + x * x),),
    np.arccosh: (lambda x, y: 1 / np.sqrt((x - 1) * (x + 1)),),
    np.arctanh: (lambda x, y: 1 / ((1 - x) * (1 + x)),),
    # kinks
    np.absolute: (lambda x, y: np.sign(x),),
    np.maximum: (
        lambda a, b, y: np.heaviside(a - b, 0.5),
        lambda a, b, y: np.heaviside(b - a, 0.5),
    ),
    np.minimum: (
        lambda a, b, y: np.heaviside(b - a, 0.5),
        lambda a, b, y: np.heaviside(a - b, 0.5),
    ),
    # jumps
    np.sign: (zero,),
    np.floor: (zero,),
    np.ceil: (zero,),
    np.trunc: (zero,),
    np.rint: (zero,),
    np.heaviside: (zero, lambda a, b, y: a == 0),
}
# Python's operators are the same functions, and quicker on single numbers.
PARTIALS |= {
    operator.add: PARTIALS[np.add],
    operator.sub: PARTIALS[np.subtract],
    operator.mul: PARTIALS[np.multiply],
    operator.truediv: PARTIALS[np.divide],
    operator.neg: PARTIALS[np.negative],
    operator.pow: PARTIALS[np.power],
}
