import pytest

from agentrl.learner.entropy import EntropyControl


def test_below_the_target_the_coefficient_rises_and_above_it_falls_to_zero():
    control = EntropyControl(0.0, target=0.2, delta=0.005)
    for _ in range(3):
        control = control.after(0.1)
    assert control.coefficient == pytest.approx(0.015)
    assert control.applied == control.coefficient
    for _ in range(5):
        control = control.after(0.9)
    assert control.coefficient == 0.0


def test_it_is_only_applied_at_or_below_the_target():
    control = EntropyControl(0.01, target=0.2)
    assert control.applied == 0.0  # nothing has been measured yet
    assert control.after(0.2).applied == 0.01
    assert control.after(0.3).applied == 0.0


def test_a_fixed_coefficient_stays():
    control = EntropyControl(0.01)
    assert control.applied == 0.01
    assert control.after(5.0) is control
