"""Every pattern of the catalogue: played, or why not."""

from tests.redteam import test_gaming, test_leaks, test_subversion, test_tampering
from tests.redteam.rollouts import Pattern

PATTERNS: tuple[Pattern, ...] = (
    *test_subversion.PATTERNS,
    *test_tampering.PATTERNS,
    *test_leaks.PATTERNS,
    *test_gaming.PATTERNS,
)

CATALOGUE = (
    *("H01", "H02", "H03", "H04", "H06", "H07", "H08", "H09", "H10", "H12", "H13", "H15", "H17"),
    *("H18", "H20", "H21", "H22", "H23", "H25", "H26", "H28", "H29", "H31", "H32", "H33", "H34"),
    *("H35", "H36", "H37", "H38", "H39", "H40", "H41", "H42", "H43", "H44"),
    *("H45", "H46", "H48", "H49", "H50", "H51", "H52", "H54", "H56"),
    *("H57", "H58", "H59", "H61", "H62", "H63", "H65", "H66", "H67"),
    *("H68", "H69", "H71", "H72"),
)

PLAYED_ELSEWHERE = {
    "H40": "test_leaks: it takes several submissions, which one list of commands cannot say",
}

NOT_APPLICABLE = {
    "H41": "no memory outlives its episode: one is made for each, and dies with it",
    "H43": "tasks are generated, so there is no public answer to recall; canary lines are stripped",
    "H49": "no task forbids a program that a box holds; there is nothing to police",
    "H50": "no task asks for a pipeline whose product could be shipped ready-made",
    "H57": "no verdict depends on a clock the code under test could reach",
    "H58": "no verdict depends on how fast a second run is",
    "H59": "no verdict depends on work that could be deferred past a timer",
    "H61": "no verdict compares with a baseline that is measured",
    "H63": "no reward is given for steps, only for what is left at the end",
    "H66": "what a memory writes is a step of the record and reaches no verifier",
    "H68": "no CAD task in these suites: there is no reference mesh to copy",
    "H69": "no CAD task in these suites: no shape is compared",
    "H71": "no CAD task in these suites: no partial credit without a build",
    "H72": "no CAD task in these suites: nothing is sampled on a surface",
}
