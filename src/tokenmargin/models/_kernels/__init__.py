"""Kernels for NVIDIA GPUs, in Pallas: a batch of the two-layer model and its gradient [E, (36)].

Each module is one kernel, or a few that share an idea, with a slow twin outside of this package. All of them run
operation by operation on any device with `interpret=True`, which is what tests do. docs/speed.md says what each costs.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.models._kernels.batch import (
        DOTS,
        PARTS,
        KernelGradients,
        document_lengths,
        gradients_by_kernels,
        kernels_apply,
        takes_whole_batch,
    )
    from tokenmargin.models._kernels.column_sums import ColumnTuning, column_sums
    from tokenmargin.models._kernels.document_values import DocumentTokens, KernelSettings
    from tokenmargin.models._kernels.documents import document_gradients
    from tokenmargin.models._kernels.halves import in_parts, power_of_two_below
    from tokenmargin.models._kernels.moved_rows import RowsGradient
    from tokenmargin.models._kernels.token_rows import RowTuning, occurrences, row_sums, token_places
    from tokenmargin.models._kernels.tried_gpu import is_tried_gpu
    from tokenmargin.models._kernels.wide_products import (
        RowSlot,
        Tuning,
        gathered_gram,
        gathered_product,
        read_table,
    )

__all__ = [
    "DOTS",
    "PARTS",
    "ColumnTuning",
    "DocumentTokens",
    "KernelGradients",
    "KernelSettings",
    "RowSlot",
    "RowTuning",
    "RowsGradient",
    "Tuning",
    "column_sums",
    "document_gradients",
    "document_lengths",
    "gathered_gram",
    "gathered_product",
    "gradients_by_kernels",
    "in_parts",
    "is_tried_gpu",
    "kernels_apply",
    "occurrences",
    "power_of_two_below",
    "read_table",
    "row_sums",
    "takes_whole_batch",
    "token_places",
]

found_on_demand(__name__, __file__)
