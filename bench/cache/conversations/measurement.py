# SPDX-License-Identifier: Apache-2.0
"""One server under one load, and what came of it."""
import dataclasses
import json
import math

from live_server import Server, run

PAGES_EVICTED = 'troupe_kv_pages_evicted_total{{tier="{}",to="nowhere"}}'
HITS = 'troupe_prefix_cache_hits_total{{tier="{}"}}'


@dataclasses.dataclass
class Measurement:
    rate: float               # conversations begun a second
    throughput: float         # requests answered a second
    p90: float                # of normalized latency: seconds from asking to the end, for each output token
    mean: float
    num_requests: int         # asked in the measured time
    num_unfinished: int       # of these; they count as slower than any other
    history_tokens: int       # full pages of what was said before, over all turns
    recomputed_tokens: int    # of these, not found in any tier
    device_hits: int          # tokens found
    host_hits: int
    evicted_pages: int        # that are nowhere any more
    preemptions: int

    @property
    def share_answered(self):
        """The share of what it was asked that it answered."""
        return 1 - self.num_unfinished / max(1, self.num_requests)

    @property
    def recomputed_share(self):
        return self.recomputed_tokens / max(1, self.history_tokens)


def measure(arguments, options, rate, seed, directory):
    with Server(arguments.troupe, options, arguments.model) as server:
        run(arguments.loadgen, "run", "--url", server.url, "--workload", arguments.workload, "--rate", rate,
            "--duration", arguments.warmup + arguments.seconds, "--drain", arguments.drain, "--seed", seed,
            "--no-calibrate", "--max-error-share", 1, "--out", directory)
        metrics = server.metrics()
    lines = (directory / "requests.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if "conversation" in record]
    history, recomputed = recomputed_tokens(records, int(metrics["troupe_kv_page_tokens"]))
    return Measurement(rate=rate, **latencies(records, arguments.warmup, arguments.warmup + arguments.seconds),
                       history_tokens=history, recomputed_tokens=recomputed,
                       device_hits=int(metrics.get(HITS.format("device"), 0)),
                       host_hits=int(metrics.get(HITS.format("host"), 0)),
                       evicted_pages=int(sum(metrics.get(PAGES_EVICTED.format(tier), 0) for tier in ("device", "host"))),
                       preemptions=int(metrics["troupe_num_preemptions_total"]))


def latencies(records, begin_s, end_s):
    """Of the requests asked for in this time; throughput is what ended in it."""
    asked = [record for record in records if begin_s <= record["intended_ns"] / 1e9 < end_s]
    done = [record for record in asked if record["outcome"] == "completed"]
    normalized = sorted((record["finished_ns"] - record["intended_ns"]) / 1e9 / record["output_tokens"]
                        for record in done)
    ended = sum(record["outcome"] == "completed" and begin_s <= record["finished_ns"] / 1e9 < end_s
                for record in records)
    rank = math.ceil(0.9 * len(asked)) - 1
    return {"throughput": ended / (end_s - begin_s),
            "p90": normalized[rank] if 0 <= rank < len(normalized) else math.inf,
            "mean": sum(normalized) / len(normalized) if normalized else math.inf,
            "num_requests": len(asked), "num_unfinished": len(asked) - len(done)}


def recomputed_tokens(records, page_tokens):
    """What was said before a turn, in full pages, and how much of it was not found.

    The last token of an answer is not part of it: its KV was never computed.
    """
    turns = {(record["conversation"], record["turn"]): record
             for record in records if record["outcome"] == "completed"}
    history = recomputed = 0
    for (conversation, turn), record in turns.items():
        before = turns.get((conversation, turn - 1))
        if before is None:
            continue
        said = before["prompt_tokens"] + before["output_tokens"] - 1
        full = said // page_tokens * page_tokens
        history += full
        recomputed += max(0, full - record["cached_tokens"])
    return history, recomputed
