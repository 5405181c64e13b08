"""A cluster of two processes, started once for the tests of this folder and closed after them."""

from __future__ import annotations

import multiprocessing

import pytest

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture(scope="package")  # not of the session: processes that wait for work take a share of a core
def scheduler():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address
    # A nanny that was starting a killed worker anew when its cluster was closed leaves the new one behind.
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
