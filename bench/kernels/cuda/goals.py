# SPDX-License-Identifier: Apache-2.0
"""Everything that scripts/gpu-check should find out, so that what was not measured is missed.

A goal is the id of a measurement, what it is in words, and a bound that its
value should keep. Programs of bench/kernels/cuda say their goals as well; a test holds
the two against each other.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Goal:
    id: str
    title: str
    at_least: float | None = None
    at_most: float | None = None

    def is_met_by(self, value):
        if value is None or value != value:
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self):
        bound = f"≥ {self.at_least:g}" if self.at_least is not None else ""
        return bound or f"≤ {self.at_most:.3g}"


DECODE_BATCHES = (1, 4, 16, 64)
PREFILL_TOKENS = (2048, 4096, 8192)

GOALS = [
    *(Goal(f"decode_{model}_{batch}", f"decode, {name} in bf16, {batch} x 1 k: roof over ITL", at_least=0.85)
      for model, name in (("llama_8b", "Llama-3.1-8B"), ("llama_13b", "Llama-2-13B")) for batch in DECODE_BATCHES),
    *(Goal(f"decode_llama_8b_{batch}_at_{context}", f"the same of Llama-3.1-8B, {batch} x {context}", at_least=0.85)
      for batch, context in ((1, 4096), (1, 16384), (64, 4096))),
    *(Goal(f"prefill_llama_8b_{tokens}", f"prefill of {tokens} tokens, of the product rate", at_least=0.70)
      for tokens in PREFILL_TOKENS),
    Goal("prefill_attention_8192", "causal attention of 8192 tokens, of the product rate", at_least=0.60),
    Goal("decode_attention_64x16384", "paged decode attention, 64 x 16384, of read bandwidth", at_least=0.85),
    Goal("decode_attention_64x256", "paged decode attention, 64 x 256, of read bandwidth", at_least=0.55),
    Goal("decode_attention_against_torch", "the same, 64 x 16384: our time over torch's on KV in one piece",
         at_most=1.05),
    *(Goal(f"mixed_attention_32x8_of_{context}", f"32 x 8 new tokens of {context}, scattered over neighbouring pages",
           at_most=1.05) for context in (512, 2048, 8192)),
    Goal("kernels_per_layer", "kernels a layer in decode", at_most=6),
    Goal("decode_gap_64", "gap between decode batches of 64 streams, of an iteration", at_most=0.03),
    Goal("layer_norm_against_torch", "LayerNorm at TurboTransformers' shapes: torch's time over ours, worst",
         at_least=1.0),
    Goal("completion_polled_word", "end of a kernel until the host knows, polled word, us", at_most=3.0),
    Goal("completion_polled_of_host_function", "the same over cudaLaunchHostFunc's", at_most=1 / 3),
    Goal("train_slowed_by_polled_word", "a train of 64 small kernels slowed by it", at_most=0.02),
    *(goal for model, name in (("llama_8b", "two layers of Llama-3.1-8B"), ("smollm2", "SmolLM2-135M")) for goal in (
        Goal(f"logits_{model}", f"logits of {name} in bf16 against transformers', relative", at_most=0.02),
        Goal(f"greedy_{model}_together", f"greedy tokens of 64 prompts of {name}, at once: equal but for near ties",
             at_least=1.0),
        Goal(f"greedy_{model}_alone", "the same of 8 prompts, one after the other", at_least=1.0))),
    Goal("throughput_against_transformers", "tokens/s of 1,000 requests over transformers' continuous batching",
         at_least=3.0),
    Goal("one_stream_against_transformers", "tokens/s of one stream over generate with a static cache", at_least=1.3),
    Goal("itl_4_streams", "ITL at 4 streams, ms", at_most=5.0),
    Goal("pages_to_host", "KV pages to the host, of pinned copies of 2 MB", at_least=0.90),
    Goal("pages_from_host", "KV pages from the host, of pinned copies of 2 MB", at_least=0.90),
    Goal("decode_slowed_by_copies", "decode slowed by copies of pages meanwhile", at_most=0.03),
    Goal("follow_up_ttft_device", "follow-up TTFT (2,048 tokens known, 38 new), from the device, of stateless",
         at_most=0.15),
    Goal("follow_up_ttft_host", "the same from the host tier", at_most=0.20),
    Goal("sample_top_p", "sampling 64 rows of 128,256 logits, top_p 0.9, us", at_most=60.0),
    Goal("lstm_step_512", "LSTM step of 512 cells, 1024 wide, us", at_most=25.0),
    Goal("short_convolution_64", "short convolution of 64 tokens, LFM2-1.2B, us", at_most=8.0),
    Goal("short_convolution_8192", "short convolution of 8,192 tokens, LFM2-1.2B, of copy bandwidth", at_least=0.5),
]
