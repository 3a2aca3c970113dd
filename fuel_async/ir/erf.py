"""The numbers of the error function and of the GELU built on it, which the code of all backends shares.

Each is one formula: erf(x) = tanh(x·P(x²)) and Φ(x) = 1 / (1 + exp2(−x·R(x²))), where P(t) and R(t) approximate
atanh(erf x)/x and log2(Φ(x)/Φ(−x))/x: both are even and smooth, so a function of t = x² serves. They have the form
c₀ + t·F(t) with F a continued fraction a + n₁/(t + s₁ + n₂/(t + s₂ + …)), which costs three operations a level where a
quotient of polynomials costs four, and leaves the relative error at 0 to c₀ alone. The coefficients are this project's
own: weighted least squares for quotients of polynomials (Loeb's iteration) with Lawson's weights, over Chebyshev nodes,
in 60-digit arithmetic against mpmath's erf and erfc; the weights even out the error of the result, not of P or R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_LOG2E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class ErfFormula:
    """c₀ + t·F(t), F(t) = a + n₁/(t + s₁ + n₂/(t + s₂ + …))."""

    #: (n, s) of F from the innermost level outwards.
    levels: tuple[tuple[float, float], ...]
    c0: float
    a: float = 0.0
    #: |x| beyond which the result is that of infinity; t·F(t) has no value there.
    limit: float = math.inf


#: P on |x| ≤ 4, quotient of degrees 3 and 3: relative error of erf 5.2e-8, all of it the rounding of c₀ = 2/√π.
ERF_F32 = ErfFormula(
    ((35.2021865248, 3.68804232732), (-115.955294709, 4.7930621012), (5.30175141389, 59.6748373572)),
    c0=1.1283791670955126,
    limit=4.5,
)
#: P on |x| ≤ 5.95, degrees 9 and 9: relative error of erf 1.1e-17.
ERF_F64 = ErfFormula(
    (
        (64.81400593898466, -1.28007997507076),
        (-7.1189661532055215, 8.419076824765929),
        (-26.279766982278648, 7.663605323185866),
        (208.06322239774792, -8.88119298927258),
        (19.363472892392103, 10.457280924334196),
        (64.19761221038897, 5.498168006552507),
        (-133.0050235074652, 12.066067185235248),
        (-16510.365292559076, 78.30711870844209),
        (15.154982339966264, 368.3505010800487),
    ),
    c0=1.1283791670955126,
    limit=6.0,
)
#: −R on |x| ≤ 6, degrees 3 and 2: error 6.6e-8 of the GELU of |x|; c₀ = −2·√(2/π)·log2(e).
GELU_F32 = ErfFormula(
    ((227.16018054343093, 15.364998476746177), (-0.725120091149825 * _LOG2E, 5.528233234161437)),
    c0=-1.595769121605731 * _LOG2E,
    a=-0.03696966719942534 * _LOG2E,
)
