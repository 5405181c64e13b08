"""What a program sends, read from texts whose answer is known."""

from __future__ import annotations

from benchmarks.collectives import Collective, collectives, numbers_a_step

PROGRAM = """HloModule jit_f

%add (a: f64[], b: f64[]) -> f64[] {
  ROOT %sum = f64[] add(%a, %b)
}

%inner (c: (s32[], f64[4])) -> (s32[], f64[4]) {
  %all-reduce.3 = f64[4,16,16]{2,1,0} all-reduce(%x), channel_id=3, to_apply=%add
}

%branch_0 (c: f64[4]) -> f64[4] {
  %gather = f32[8,3]{1,0} all-gather(%x), channel_id=4, dimensions={0}
}

%branch_1 (c: f64[4]) -> f64[4] {
  ROOT %same = f64[4] copy(%c)
}

%body (c: (s32[], f64[4])) -> (s32[], f64[4]) {
  %all-reduce.1 = (f64[40,2]{1,0}, f64[]) all-reduce(%x, %y), channel_id=1, to_apply=%add
  %while.2 = (s32[], f64[4]) while(%t), condition=%cond, body=%inner, backend_config={"known_trip_count":{"n":"5"}}
  %which = f64[4] conditional(%k, %x, %y), branch_computations={%branch_0, %branch_1}
}

ENTRY %main (p: f64[4]) -> f64[4] {
  %all-reduce.9 = f32[7]{0} all-reduce(%p), channel_id=9, to_apply=%add
  %while.1 = (s32[], f64[4]) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"300"}}
}
"""


def test_sizes_loops_and_branches():
    assert collectives(PROGRAM) == [
        Collective("all-reduce", 7, 1, False),
        Collective("all-reduce", 81, 1, True),
        Collective("all-reduce", 1024, 5, True),
        Collective("all-gather", 24, 1, True),
    ]
    assert numbers_a_step(PROGRAM) == 81 + 5 * 1024 + 24


def test_a_text_without_a_program_sends_nothing():
    assert collectives("") == []
