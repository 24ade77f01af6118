"""Evidence: plain data about a learner's answers, captured in their kernel and sent to the judge.

In: a `Plan`, and a learner's answers, which may be any objects. Out: `Evidence`. It does not say
whether an answer is right, and nothing in this package knows. Evidence may be forged, so reading it
checks its form strictly.
"""

from autograder.evidence.data import (
    MIME_TYPE,
    Contents,
    Design,
    Evidence,
    File,
    LocalArray,
    MalformedEvidenceError,
    MeshGrid,
    NotCaptured,
    Piece,
    Placement,
    Placements,
    ProcessResult,
    Program,
    Run,
    Runs,
    Shard,
    Shards,
    Struct,
    Unanswered,
    Value,
    from_json,
    to_json,
)
from autograder.evidence.exported_functions import DesignPlan, GradientPlan, ProgramPlan
from autograder.evidence.placements import PlacementPlan, PlacementsPlan
from autograder.evidence.plans import (
    DID_NOT_FINISH,
    AnswerPlan,
    ObserveRequest,
    Plan,
    capture,
    give_plans,
    is_grading,
    known_plans,
    observe,
    without_process_cases,
)
from autograder.evidence.process_results import ProcessesPlan
from autograder.evidence.results import ResultsPlan, TablePlan, plain
from autograder.evidence.steps import announce_steps, watch_steps
from autograder.evidence.time_limits import announce_wait
from autograder.evidence.unfinished_cells import begin_cell, end_cell, watch_cells

__all__ = [
    "DID_NOT_FINISH",
    "MIME_TYPE",
    "AnswerPlan",
    "Contents",
    "Design",
    "DesignPlan",
    "Evidence",
    "File",
    "GradientPlan",
    "LocalArray",
    "MalformedEvidenceError",
    "MeshGrid",
    "NotCaptured",
    "ObserveRequest",
    "Piece",
    "Placement",
    "PlacementPlan",
    "Placements",
    "PlacementsPlan",
    "Plan",
    "ProcessResult",
    "ProcessesPlan",
    "Program",
    "ProgramPlan",
    "ResultsPlan",
    "Run",
    "Runs",
    "Shard",
    "Shards",
    "Struct",
    "TablePlan",
    "Unanswered",
    "Value",
    "announce_steps",
    "announce_wait",
    "begin_cell",
    "capture",
    "end_cell",
    "from_json",
    "give_plans",
    "is_grading",
    "known_plans",
    "observe",
    "plain",
    "to_json",
    "watch_cells",
    "watch_steps",
    "without_process_cases",
]
