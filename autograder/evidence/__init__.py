"""Evidence: the plain data that goes into a student's kernel and comes out of it.

In: a `Plan`, and answers of a learner's, which may be anything. Out: `Evidence`, which says
nothing about right or wrong, and which is read strictly, since it may be forged. Nothing here knows
what is right.
"""

from autograder.evidence.data import (
    MIME_TYPE,
    Contents,
    Design,
    Evidence,
    File,
    MalformedEvidenceError,
    MeshGrid,
    NotCaptured,
    OwnArray,
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
from autograder.evidence.exported_functions import DesignPlan, ProgramPlan
from autograder.evidence.placements import PlacementPlan, PlacementsPlan
from autograder.evidence.plans import (
    AnswerPlan,
    Call,
    Plan,
    capture,
    is_grading,
    observe,
    told,
    without_process_cases,
)
from autograder.evidence.plans import give as give_plans
from autograder.evidence.process_results import ProcessesPlan
from autograder.evidence.results import ResultsPlan, TablePlan, plain
from autograder.evidence.time_limits import announced
from autograder.evidence.unfinished_cells import watch_cells

__all__ = [
    "MIME_TYPE",
    "AnswerPlan",
    "Call",
    "Contents",
    "Design",
    "DesignPlan",
    "Evidence",
    "File",
    "MalformedEvidenceError",
    "MeshGrid",
    "NotCaptured",
    "OwnArray",
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
    "announced",
    "capture",
    "from_json",
    "give_plans",
    "is_grading",
    "observe",
    "plain",
    "to_json",
    "told",
    "watch_cells",
    "without_process_cases",
]
