"""Whatever a check or an agent leaves behind has a typed outcome and one clear sentence."""

import asyncio

import pytest

from agentrl.envs.sandbox import Harvest
from agentrl.envs.sandboxes.bubblewrap import Bubblewrap
from agentrl.envs.sandboxes.files import Folder
from agentrl.errors import VerifierError
from agentrl.plugins import find
from agentrl.reward.judgement import judge
from agentrl.reward.script import BYTES, verdict
from agentrl.task import Limits, Task
from agentrl.trajectory.records import Verdict
from tests.redteam.rollouts import DONE, FIX, judged, script, state, swe
from tests.reward.play import nobody

OPENER = Bubblewrap()
TXT, JSON = "/logs/verifier/reward.txt", "/logs/verifier/reward.json"


def checked(test: str, left: Harvest | None = None) -> Verdict:
    """What a check comes to, in a real box."""
    task = Task("t/1", "t", "x", tests={"test.sh": test.encode()}, limits=Limits(verifier_s=15.0))
    verifier = find("verifiers", "script")()
    return asyncio.run(judge(task, nobody(task), OPENER, left or Harvest({}), verifier))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "reward.txt is empty"),
        (b" \n\t", "reward.txt is empty"),
        (b"nan", "reward.txt is not finite"),
        (b"-inf", "reward.txt is not finite"),
        (b"1e999", "reward.txt is not finite"),
        (b"passed", "reward.txt holds 'passed', which is no number"),
        (b"1 2", "reward.txt holds '1 2', which is no number"),
        (b"1\n0\n", "no number"),
        (b"\x00\x00", "no number"),
        (b"\xff\xfe1", "reward.txt is not UTF-8"),
        (b"1" * (BYTES + 1), f"reward.txt is larger than {BYTES} bytes"),
    ],
)
def test_a_text_reward_that_is_no_finite_number_is_invalid(data: bytes, said: str) -> None:
    found = verdict(None, data, "it printed nothing")
    assert (found.outcome, found.score, found.success) == ("invalid", None, False)
    assert said in found.note
    assert "\n" not in found.note


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "reward.json is empty"),
        (b"[1]", "reward.json is not an object of numbers"),
        (b"1", "reward.json is not an object of numbers"),
        (b"null", "reward.json is not an object of numbers"),
        (b"{}", "reward.json is not an object of numbers"),
        (b'{"reward": NaN}', "reward.json: reward is not a finite number"),
        (b'{"reward": Infinity}', "reward.json: reward is not a finite number"),
        (b'{"reward": 1' + b"0" * 400 + b"}", "reward.json: reward is not a finite number"),
        (b'{"reward": "1"}', "reward.json: reward is not a finite number"),
        (b'{"reward": null}', "reward.json: reward is not a finite number"),
        (b'{"reward": [1]}', "reward.json: reward is not a finite number"),
        (b'{"reward": 1, "speed": NaN}', "reward.json: speed is not a finite number"),
        (b'{"a": 1, "b": 0}', "no entry `reward` among ['a', 'b']"),
        (b'{"reward": 1', "reward.json is not JSON"),
        (b"\xff{}", "reward.json is not UTF-8"),
        (b"[" * 50_000, "reward.json"),
        (b" " * BYTES + b'{"reward": 1}', f"reward.json is larger than {BYTES} bytes"),
    ],
)
def test_a_json_reward_that_cannot_be_read_is_invalid(data: bytes, said: str) -> None:
    found = verdict(data, b"1", "it printed nothing")
    assert (found.outcome, found.score, found.success) == ("invalid", None, False)
    assert said in found.note


@pytest.mark.parametrize(
    ("as_json", "as_text", "score", "flags"),
    [
        (None, b"\xef\xbb\xbf0.5\r\n", 0.5, ()),
        (None, b"1_0", 1.0, ()),
        (b'{"reward": true}', None, 1.0, ()),
        (b'{"only": 0.25}', None, 0.25, ()),
        (b'{"reward": 0, "reward": 1}', None, 1.0, ()),
        (b'{"reward": 0.5}', b"0.5", 0.5, ()),
        (b'{"reward": 0.5}', b"1", 0.5, ("REWARD_MISMATCH",)),
        (b'{"reward": 0.5}', b"", 0.5, ("REWARD_MISMATCH",)),
        (b'{"reward": 17}', None, 1.0, ()),
        (b'{"reward": -1}', None, 0.0, ()),
    ],
)
def test_a_reward_that_can_be_read_is_what_it_says(
    as_json: bytes | None, as_text: bytes | None, score: float, flags: tuple[str, ...]
) -> None:
    found = verdict(as_json, as_text, "")
    assert (found.outcome, found.score, found.flags) == ("reward", score, flags)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (f"mkdir {TXT}", "reward.txt is a directory"),
        (f"mkfifo {TXT}", "reward.txt is a pipe"),
        (f"ln -s /etc/passwd {TXT}", "reward.txt is a link"),
        (f"ln -s {TXT} {TXT}", "reward.txt is a link"),
        (f"echo 1 >{TXT}; mkdir {JSON}", "reward.json is a directory"),
    ],
)
def test_a_reward_that_is_no_file_is_invalid(place: str, kind: str) -> None:
    found = checked(place)
    assert (found.outcome, found.score) == ("invalid", None)
    assert f"the reward cannot be read: {kind}" in found.note


def test_where_only_what_the_agent_left_puts_it_there_it_is_a_zero() -> None:
    test = f"[ -f trick ] && mkfifo {TXT} || echo 1 >{TXT}"
    assert checked(test).success
    found = checked(test, Harvest({"trick": (0o644, b"")}))
    assert (found.outcome, found.score, found.flags) == ("reward", 0.0, ("REWARD_FILE",))


def test_a_reward_of_many_megabytes_is_refused_unread() -> None:
    found = checked(f"head -c 30000000 /dev/zero >{TXT}")
    assert found.outcome == "invalid"
    assert "larger than" in found.note


def test_a_check_that_says_nothing_is_the_tasks_fault_in_one_sentence() -> None:
    with pytest.raises(VerifierError) as caught:
        checked("echo looked at it")
    assert caught.value.what == "tests/test.sh wrote no reward: looked at it"
    assert "reward.txt" in caught.value.help


HOSTILE = r"""
mkdir -p -- '-rf' 'a b' 'x;touch y' '$(touch z)' "$(printf 'new\nline')" "$(printf '\xe2\x80\xae')"
long=$(head -c 255 /dev/zero | tr '\0' n)
for at in -- -n --help '*' '?' '~' "$(printf 'tab\there')" "$long"; do
  echo x >"./$at"
done
echo x >"./$(printf 'bad\xff')"; echo x >"./-rf/$(printf 'new\nline').py"
echo 'x = 1' >'./a b/c d.py'
ln -s . loop; ln -s nowhere gone; ln -s /etc/shadow shadow; mkfifo pipe
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
deep=.; for n in $(seq 90); do deep=$deep/d; done; mkdir -p $deep
truncate -s 50M sparse; chmod 000 '*' 'a b'
"""


@pytest.mark.parametrize(
    ("task", "solve"),
    [
        (script(), DONE),
        (swe(), FIX),
        (
            state(b'{"files": {"answer": {"text": "3", "strip": true}}}', data=b"a\nb\nc\n"),
            "wc -l <data >answer",
        ),
    ],
    ids=["script", "hidden_tests", "state"],
)
def test_names_and_things_of_any_kind_do_not_keep_honest_work_from_its_score(
    task: Task, solve: str
) -> None:
    found = asyncio.run(judged(task, (HOSTILE, solve)))
    assert (found.outcome, found.score) == ("reward", 1.0), found
    assert set(found.flags) == {"PATH_ESCAPE"}
    lost = asyncio.run(judged(task, (HOSTILE,)))
    assert (lost.outcome, lost.score) == ("reward", 0.0)
    assert "left out: " in lost.note


def test_a_sparse_terabyte_is_named_and_not_read() -> None:
    folder = Folder(None, 1, sized=False)
    try:
        folder.place(("w", "small"), b"1")
        with open(folder.path / "upper/w/huge", "wb") as file:
            file.truncate(1 << 40)
        harvest = folder.harvest(("w",))
    finally:
        folder.remove()
    assert set(harvest.files) == {"small"}
    assert harvest.skipped == ("huge (too large)",)
