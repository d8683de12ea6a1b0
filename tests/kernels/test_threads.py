"""Denormal numbers count as 0 in the threads that compute, and nowhere else."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from isotune.kernels.threads import DENORMAL, GRAIN, compute_alone, no_denormals


def counts_as_zero() -> bool:
    return not torch.tensor(DENORMAL).mul(1)


def in_a_new_thread() -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(counts_as_zero).result()


def test_denormal_numbers_are_zero_in_a_block_only() -> None:
    assert torch.tensor(DENORMAL) > 0
    for _ in range(2):
        with no_denormals():
            assert counts_as_zero()
            assert in_a_new_thread()
            with no_denormals():
                assert counts_as_zero()
            assert counts_as_zero()
        assert not counts_as_zero()
        assert not in_a_new_thread()
    with pytest.raises(ZeroDivisionError), no_denormals():
        raise ZeroDivisionError
    assert not counts_as_zero()


def test_torchs_own_threads_stay_as_they_were() -> None:
    torch.set_num_threads(3)
    try:
        with no_denormals():
            torch.full((3 * GRAIN,), DENORMAL).mul(1)
        assert (torch.full((3 * GRAIN,), DENORMAL).mul(1) > 0).all()
    finally:
        torch.set_num_threads(1)


def test_a_thread_of_a_pool_computes_alone() -> None:
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(1, initializer=compute_alone) as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
        assert pool.submit(counts_as_zero).result()
    torch.set_num_threads(threads)
    assert not counts_as_zero()
