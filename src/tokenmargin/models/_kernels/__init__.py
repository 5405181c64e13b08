"""Kernels for NVIDIA GPUs, in Pallas: a batch of the two-layer model and its gradient [E, (36)].

Each module is one kernel, or a few that share an idea, with a slow twin outside of this package. All of them run
operation by operation on any device with `interpret=True`, which is what tests do. docs/speed.md says what each costs.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.models._kernels.batch import DOTS as DOTS
    from tokenmargin.models._kernels.batch import PARTS as PARTS
    from tokenmargin.models._kernels.batch import KernelGradients as KernelGradients
    from tokenmargin.models._kernels.batch import document_lengths as document_lengths
    from tokenmargin.models._kernels.batch import gradients_by_kernels as gradients_by_kernels
    from tokenmargin.models._kernels.batch import kernels_apply as kernels_apply
    from tokenmargin.models._kernels.batch import takes_whole_batch as takes_whole_batch
    from tokenmargin.models._kernels.column_sums import ColumnTuning as ColumnTuning
    from tokenmargin.models._kernels.column_sums import column_sums as column_sums
    from tokenmargin.models._kernels.document_values import DocumentTokens as DocumentTokens
    from tokenmargin.models._kernels.document_values import KernelSettings as KernelSettings
    from tokenmargin.models._kernels.documents import document_gradients as document_gradients
    from tokenmargin.models._kernels.halves import in_parts as in_parts
    from tokenmargin.models._kernels.halves import power_of_two_below as power_of_two_below
    from tokenmargin.models._kernels.moved_rows import RowsGradient as RowsGradient
    from tokenmargin.models._kernels.token_rows import RowTuning as RowTuning
    from tokenmargin.models._kernels.token_rows import occurrences as occurrences
    from tokenmargin.models._kernels.token_rows import row_sums as row_sums
    from tokenmargin.models._kernels.token_rows import token_places as token_places
    from tokenmargin.models._kernels.tried_gpu import is_tried_gpu as is_tried_gpu
    from tokenmargin.models._kernels.wide_products import RowSlot as RowSlot
    from tokenmargin.models._kernels.wide_products import Tuning as Tuning
    from tokenmargin.models._kernels.wide_products import gathered_gram as gathered_gram
    from tokenmargin.models._kernels.wide_products import gathered_product as gathered_product
    from tokenmargin.models._kernels.wide_products import read_table as read_table


found_on_demand(__name__, __file__)
