"""Operators that read an element right before they write the one at the same place, and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.model.overlap.case import Case

__all__ = ["conversion", "elementwise"]


def elementwise(case: Case) -> int | None:
    """Input and output have one shape and elements of one type; any other operand may be broadcast.

    Of a broadcast operand an element is read more than once: None. Of the reference kernels (`cc` and `ref` as in
    `edgemem.model.overlap.kernels`):

    operators                      call                            kernel
    ADD                            cc/add.cc:45-144                ref/add.h:42-282, ref/integer_ops/add.h:47-70
    MUL                            cc/mul_common.cc                ref/mul.h:36-79, ref/integer_ops/mul.h:35-119
    SUB, DIV                       cc/sub.cc:52-156, cc/div.cc     ref/sub.h:131-249, ref/div.h:51-225
    MAXIMUM, MINIMUM               cc/maximum_minimum.cc:40-52     ref/maximum_minimum.h:37
    SQUARED_DIFFERENCE, LOGICAL_*  cc/squared_difference.cc:190,   ref/binary_function.h:31, 52
                                   cc/logical_common.cc:39
    any of them, broadcast         as above                        ref/broadcast_loop.h:33, in the output's order
    of one operand                 cc/activations.cc, ...          one loop over all elements

    Of CMSIS-NN, int8, with operands of one shape; reference kernels run where one is broadcast:

    operator  call                    kernel                                 order
    ADD       cc/cmsis_nn/add.cc:145  arm_elementwise_add_s8.c:72, 124, 204  four (MVE, DSP), or one by one
    MUL       cc/cmsis_nn/mul.cc:71   arm_elementwise_mul_s8.c:69, 112, 164  the same
    """
    same = case.input.shape == case.output.shape and case.input.dtype == case.output.dtype
    return 0 if same else None


def conversion(case: Case) -> int | None:
    """The elements differ in width: element i is written to its end before element i + 1 is read.

    None if neither type is a byte wide: then a C compiler may take for granted that they do not overlap.
    """
    if case.input.count != case.output.count or 1 not in (case.input.width, case.output.width):
        return None
    wider = case.output.width - case.input.width
    last = case.output.count - 1
    return wider * (last if wider > 0 else min(last, 1))
