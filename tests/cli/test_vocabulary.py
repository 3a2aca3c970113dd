"""The vocabulary of kernels: the package's table spells out the list in tests/data/vocabulary.tsv, key by key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fuel_async.cli.vocabulary import CURRENT, OWNERS, VOCABULARY, WITHOUT_KEYS, owed_keys
from fuel_async.ir import OpKind

LIST = Path(__file__).parent.parent / "data" / "vocabulary.tsv"

#: How many keys each line of the specification's table of coverage has: the kinds of that line, and the count.
COUNTS = [
    ("add sub mul div maximum minimum pow rem", 32),
    ("affine clamp powi powi_backward", 16),
    (
        "relu neg sqr sqrt recip abs tanh exp log sin cos sigmoid silu step gelu floor ceil round sign erf gelu_erf "
        "rsqrt",
        88,
    ),
    ("eq ne lt le gt ge where", 28),
    ("sum_reduce mean_reduce max_reduce min_reduce", 16),
    ("reduce_sum_to reduce_max_to reduce_max_to_backward", 12),
    (
        "softmax_last_dim log_softmax_last_dim rms_norm_last_dim layer_norm_last_dim softmax_last_dim_backward "
        "log_softmax_last_dim_backward rms_norm_last_dim_backward layer_norm_last_dim_backward",
        32,
    ),
    ("rope", 4),
    ("fused_softmax_cross_entropy causal_conv1d selective_scan ssd_chunk_scan", 16),
    ("nonzero_indices", 2),
    ("conv2d conv_transpose2d", 16),
    ("pad pad_backward", 10),
    ("flip roll write_slice write_slice_rotating write_slice_doff", 30),
    ("masked_fill cumsum concat", 19),
    ("triu tril", 12),
    ("matmul fused_linear", 10),
    ("flash_attn flash_attn_backward_q flash_attn_backward_k flash_attn_backward_v paged_attn", 40),
    (" ".join(kind.value for kind in OpKind if "Inplace" in kind.name), 96),
    ("cast", 110),
    ("index_select gather index_add scatter_add", 26),
    ("nf4_matmul", 3),
    ("qmatmul", 1),
    ("argmax_dim argmin_dim", 8),
    ("copy", 9),
]


def listed() -> list[tuple[str, str, str]]:
    heading, *lines = LIST.read_text("utf-8").splitlines()
    assert heading.split("\t") == ["kind", "dtypes", "owner"]
    rows = []
    for line in lines:
        kind, dtypes, owner = line.split("\t")
        rows.append((kind, dtypes, owner))
    return rows


def test_the_table_spells_out_the_list() -> None:
    spelled = {(key.kind.value, " ".join(map(str, key.dtypes)), key.owner) for key in owed_keys()}
    assert sorted(spelled) == sorted(listed())


def test_no_key_is_owed_twice() -> None:
    keys = [(kind, dtypes) for kind, dtypes, _ in owed_keys()]
    assert len(keys) == len(set(keys)) == 636


@pytest.mark.parametrize(("kinds", "count"), COUNTS, ids=[kinds.split()[0] for kinds, _ in COUNTS])
def test_each_line_has_its_count(kinds: str, count: int) -> None:
    assert sum(kind in kinds.split() for kind, _, _ in listed()) == count


def test_every_kind_is_in_one_line_or_says_why_not() -> None:
    lines = [kind for kinds, _ in COUNTS for kind in kinds.split()]
    assert len(lines) == len(set(lines))
    assert {OpKind(kind) for kind in lines} | WITHOUT_KEYS.keys() == set(OpKind)
    assert len(OpKind) == 118
    assert not WITHOUT_KEYS.keys() & {key.kind for key in owed_keys()}


def test_owners_are_the_known_ones() -> None:
    counts = Counter(owner for _, _, owner in listed())
    assert counts.keys() == set(OWNERS) == {family.owner for family in VOCABULARY}
    assert [counts[owner] for owner in OWNERS] == [562, 40, 20, 8, 4, 2]
    assert OWNERS[0] == CURRENT == "primitives"
