import pytest

from agentrl.reward.plain import importable, plain

PROJECT = ("calc.py", "pkg/__init__.py", "pkg/deep.py", "tests/helper.py", "data.csv")
HEAD = "import math, unittest\nfrom calc import add\nimport calc\nimport pkg.deep as deep\n"


@pytest.mark.parametrize(
    "body",
    [
        "def test(): assert add(1, 2) == 3",
        "def test(): assert 3 == add(1, b=2)",
        "def test(): assert calc.add([1, (2, None)], {'a': -1.5}) != set()",
        "def test(): assert deep.f(10**20 + 1) in ['a', 'b']",
        "def test(): assert add(1, 2)",
        "def test(): assert not add(1, 2)",
        "def test(): assert add(1, 2) is None",
        "class T(unittest.TestCase):\n def test(self): self.assertEqual(add(1, 2), 3)",
        "class T(unittest.TestCase):\n def test(self): self.assertTrue(add(1, 2))",
        "def test():\n for want in (1, 2):\n  assert math.sqrt(want) > 0\n assert add(1, 2) == 3",
    ],
)
def test_calls_with_literals_held_against_literals_are_plain(body: str) -> None:
    assert plain([(HEAD + body).encode()], PROJECT)


@pytest.mark.parametrize(
    "body",
    [
        "def test():\n x = 1\n assert add(x, 2) == 3",
        "def test():\n got = add(1, 2)\n assert got == 3",
        "def test(): assert add(1, 2) == add(2, 1)",
        "def test(): assert list(map(add, [1], [2])) == [3]",
        "def test(): assert isinstance(3, calc.Number)",
        "class Mine(calc.Base): pass",
        "def test(): assert add(lambda: 1, 2) == 3",
        "def test(): assert 1 == 1",
        "from tests.helper import *\ndef test(): assert add(1, 2) == 3",
        "import pytest\ndef test(): assert add(1, 2) == 3",
        "from . import calc\ndef test(): assert add(1, 2) == 3",
        "def test(: broken",
    ],
)
def test_whatever_could_need_more_than_plain_values_is_not(body: str) -> None:
    uses = "" if body == "def test(): assert 1 == 1" else HEAD
    assert not plain([(uses + body).encode()], PROJECT)


def test_one_file_that_is_not_plain_decides_for_all() -> None:
    good = (HEAD + "def test(): assert add(1, 2) == 3").encode()
    assert not plain([good, b"def test(): pass"], PROJECT)


def test_only_names_that_hide_none_of_pythons_own_can_be_imported() -> None:
    files = dict.fromkeys([*PROJECT, "json.py", "unittest/__init__.py", "not-a-name.py"])
    assert importable(files) == ["calc", "pkg", "tests"]
