"""Each algorithm in each reading is a configuration that loads, and says what differs."""

from typing import get_args

import pytest

from agentrl.config import build_plugin, dump, load
from agentrl.config.sections import LearnerSection, idle
from agentrl.learner.config import check
from agentrl.learner.presets import ALGORITHMS, Reading, conventions
from agentrl.run.build import learner_settings


def loaded(algorithm: str, reading: str, *more: tuple[str, str]):
    length = [("learner.max-length", "99")] if algorithm == "dr_grpo" else []
    flags = [("learner.algorithm", algorithm), ("learner.preset", reading), *length, *more]
    return load("terminal", flags=flags)


@pytest.mark.parametrize("reading", get_args(Reading))
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_reading_of_every_algorithm_can_be_built(algorithm: str, reading: str) -> None:
    config = loaded(algorithm, reading).config
    check(learner_settings(config))
    build_plugin("credit", config.credit)
    own = conventions(algorithm, reading)["learner"]
    left = idle(config.learner)
    kept = {key: value for key, value in own.items() if key not in left}
    assert {key: getattr(config.learner, key) for key in kept} == kept


def test_the_algorithms_are_those_the_configuration_knows() -> None:
    fields = LearnerSection.model_fields
    assert set(get_args(fields["algorithm"].annotation)) == {"custom", *ALGORITHMS}
    assert set(get_args(fields["preset"].annotation)) == {"none", *get_args(Reading)}


@pytest.mark.parametrize(
    ("reading", "eps", "std", "weighting", "dual_clip", "proximal"),
    [
        ("paper", 0.0, "population", "rollout", 0.0, "sampler"),
        ("trl", 1e-4, "unbiased", "rollout", 0.0, "recompute"),
        ("verl", 1e-6, "unbiased", "token", 3.0, "recompute"),
    ],
)
def test_grpo_is_three_things(reading, eps, std, weighting, dual_clip, proximal) -> None:
    config = loaded("grpo", reading).config
    convention = build_plugin("credit", config.credit).convention
    assert (convention.eps, convention.std) == (eps, std)
    c = config.learner
    assert (c.weighting, c.dual_clip, c.proximal) == (weighting, dual_clip, proximal)


def test_what_a_person_sets_by_name_wins_and_the_origin_is_told() -> None:
    found = loaded("dapo", "trl", ("learner.clip-high", "0.5"), ("credit.kind", "rloo"))
    assert found.config.learner.clip_high == 0.5
    assert found.config.credit.model_extra["kind"] == "rloo"
    assert found.origins["learner.clip_high"] == "--learner.clip-high 0.5"
    assert found.origins["learner.weighting"] == "algorithm dapo, preset trl"


def test_another_credit_scheme_keeps_its_own_conventions() -> None:
    config = loaded("grpo", "trl", ("credit", "anchor")).config
    assert config.credit.type == "anchor"
    assert not config.credit.model_extra


def test_a_resolved_reading_loads_back_the_same(tmp_path) -> None:
    found = loaded("cispo", "verl").config
    (tmp_path / "config.toml").write_text(dump(found))
    assert load(base=tmp_path / "config.toml").config == found
    assert load(files=[tmp_path / "config.toml"]).config == found


def test_a_preset_alone_means_grpo() -> None:
    assert load("terminal", flags=[("learner.preset", "trl")]).config.learner.algorithm == "grpo"
