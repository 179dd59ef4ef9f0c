import numpy as np
import pytest

from engine.models.tasks import ArgmaxIs, ShareAbove, check_tasks

LABELS = ("0", "90", "180", "270")


def test_argmax_passes_on_its_label() -> None:
    result = ArgmaxIs("y", "90", LABELS).check({"y": np.array([[0.1, 0.7, 0.1, 0.1]], dtype=np.float32)})
    assert result.ok
    assert (result.name, result.expected, result.got, result.reason) == ("y says 90", "90", "90 (0.7)", "")


def test_argmax_names_what_won_instead() -> None:
    result = ArgmaxIs("y", "90", LABELS).check({"y": np.array([[0.1, 0.2, 0.6, 0.1]], dtype=np.float32)})
    assert not result.ok
    assert result.got == "180 (0.6)"
    assert result.reason == "90 scores 0.2, 180 (0.6) is larger"


def test_share_counts_what_is_above() -> None:
    values = {"p": np.array([0.1, 0.6, 0.7, 0.5])}
    assert ShareAbove("p", 0.5, at_least=0.5).check(values).ok
    beyond = ShareAbove("p", 0.5, at_most=0.4).check(values)
    assert not beyond.ok
    assert beyond.reason == "share 0.5000 is outside 0 … 0.4"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "output 'y' is missing"),
        ({"y": np.zeros(3)}, "holds 3 values, not 4"),
        ({"y": np.zeros(0)}, "holds 0 values"),
        ({"y": np.array([np.nan, 1, np.inf, 0])}, "holds 2 values that are no numbers"),
    ],
)
def test_unusable_outputs_never_pass(values: dict[str, np.ndarray], words: str) -> None:
    result = ArgmaxIs("y", "90", LABELS).check(values)
    assert not result.ok
    assert result.got == "nothing"
    assert words in result.reason


def test_noise_without_values_is_not_silence() -> None:
    assert not ShareAbove("p", 0.5, at_most=0.05).check({"p": np.array([np.nan, np.nan])}).ok
    assert not ShareAbove("p", 0.5, at_most=0.05).check({"p": np.zeros(0)}).ok


def test_all_tasks_are_checked() -> None:
    tasks = (ArgmaxIs("y", "0", LABELS), ShareAbove("p", 0.5, at_most=0.1))
    results = check_tasks(tasks, {"y": np.array([1.0, 0, 0, 0]), "p": np.ones(2)})
    assert [result.ok for result in results] == [True, False]
