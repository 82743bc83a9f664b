from dataclasses import dataclass

from runtime.cluster.diagnosis import Graces, diagnose
from tests.assets.cluster_documents import GIB, SCHEDULED, condition, ended, job, pod, seen

GRACES = Graces(pending_seconds=600, start_seconds=120)
COMPLETE = condition("Complete", "True")


@dataclass(frozen=True)
class Record:
    pod: str = "digits-1-abcde"
    oom_kills: int = 1
    memory_peak_bytes: int | None = 16 * GIB
    memory_limit_bytes: int | None = 16 * GIB


def test_a_complete_job_whose_pod_recorded_a_kill_for_memory_ran_out_of_it():
    fault = diagnose(seen(job(COMPLETE), pod(phase="Succeeded", state=ended(0, "Completed"))), GRACES, Record())

    assert fault.code == "out_of_memory"
    assert fault.context["memory_peak_bytes"] == 16 * GIB


def test_the_record_of_a_pod_that_is_gone_still_tells():
    assert diagnose(seen(None, seconds=600), GRACES, Record()).code == "out_of_memory"


def test_a_record_without_a_kill_leaves_the_word_to_the_cluster():
    evicted = pod(SCHEDULED, condition("DisruptionTarget", "True", "EvictionByEvictionAPI"), phase="Failed")

    assert diagnose(seen(job(), evicted), GRACES, Record(oom_kills=0)).code == "pod_evicted"
