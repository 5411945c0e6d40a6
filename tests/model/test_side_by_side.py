import os
import threading

import pytest
import torch

from elmo.model.side_by_side import side_by_side


def test_both_halves_run_at_the_same_time_with_half_of_the_threads(two_threads):
    met = threading.Barrier(2, timeout=20)

    def work(half):
        met.wait()  # would time out if one came after the other
        return half, torch.get_num_threads(), torch.is_grad_enabled(), threading.get_ident()

    first, second = side_by_side(work)
    assert first[:3] == (0, 1, False) and second[:3] == (1, 1, False)
    assert len({first[3], second[3], threading.get_ident()}) == 3


def test_the_number_of_threads_of_everybody_else_stays(two_threads):
    side_by_side(lambda half: half)
    assert torch.get_num_threads() == 2
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2]


def test_with_one_thread_one_half_follows_the_other():
    idents = side_by_side(lambda half: threading.get_ident())
    assert idents == (threading.get_ident(),) * 2


def test_inference_mode_reaches_both_halves(two_threads):
    with torch.inference_mode():
        assert side_by_side(lambda half: torch.is_inference_mode_enabled()) == (True, True)
    assert side_by_side(lambda half: torch.is_inference_mode_enabled()) == (False, False)


def test_an_error_in_a_half_reaches_the_caller(two_threads):
    def work(half):
        if half:
            raise ValueError("the second half")

    with pytest.raises(ValueError, match="the second half"):
        side_by_side(work)
    assert side_by_side(lambda half: half) == (0, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(two_threads):
    side_by_side(lambda half: half)
    child = os.fork()
    if not child:  # no assertion may leave it
        os._exit(0 if side_by_side(lambda half: half + 1) == (1, 2) else 1)
    assert os.waitpid(child, 0)[1] == 0
