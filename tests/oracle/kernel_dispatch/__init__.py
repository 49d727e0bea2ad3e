"""What kernels read and write, in order, written from their sources: an oracle for `edgemem.model.overlap`.

It shares no rule with the product: from the loops of the kernel that a library dispatches to follows when each element
is read and written (`trace.Trace`), and from that the least safe distance of an input from the output. It is compared
with the product's by `python -m tests.oracle.kernel_dispatch`, on random operators.
"""
