// SPDX-License-Identifier: Apache-2.0
// The HTTP side's view of a model it offers: its name, what it can do, how
// long a sequence may be and what a request means that leaves things unsaid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "text/sentence_prompts.hpp"

namespace troupe {

// Sampling defaults; the model's generation_config.json overrides them.
struct SamplingDefaults {
  float temperature = 1.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;  // 0: all
  float repetition_penalty = 1.0F;
};

// The use that an endpoint has for a model.
enum class ModelTask : std::uint8_t {
  kGenerate,
  kEmbed,
  kClassify,
  kScore,  // how well two texts go together: cosines of vectors, or a classifier of one label
};

// Facts about a model's files and its memory, which Ollama's API tells. Read only where
// that is served.
struct ModelFacts {
  std::string format = {};       // "safetensors" or "gguf"
  std::string family = {};       // "llama"
  std::string weight_type = {};  // of most weights, as they are run: "BF16"
  std::uint64_t num_parameters = 0;
  std::uint32_t width = 0, num_layers = 0;
  std::uint64_t size_bytes = 0;    // of the files
  std::uint64_t memory_bytes = 0;  // of the device, as planned
  bool is_on_gpu = false;
  std::string digest = {};    // 64 hex digits that change with the names and sizes of the files
  std::int64_t modified = 0;  // Unix seconds
};

struct ServedModelInfo {
  std::string name;
  ModelKind kind = ModelKind::kGenerative;
  std::int64_t created = 0;  // Unix seconds
  std::uint32_t context_length = 0;
  SamplingDefaults defaults;
  std::uint32_t embedding_size = 0;      // of kEmbedding: numbers of a vector
  SentencePrompts prompts = {};          // of kEmbedding
  std::vector<std::string> labels = {};  // of kClassifying
  bool has_independent_labels = false;   // so, too: any number of them may hold
  bool classifies_trees = false;         // so, too: inputs are trees, each node gets a label
  // A chat model's template: calls are understood in its answers; it knows reasoning.
  bool calls_tools = false, reasons = false;
  bool switches_reasoning = false;  // so, too: it can be told to reason or not
  bool hears_lengths = false;       // requests may foretell the lengths of their answers
  ModelFacts facts = {};
};

inline bool can(const ServedModelInfo& model, ModelTask task) {
  switch (task) {
    case ModelTask::kGenerate: return model.kind == ModelKind::kGenerative;
    case ModelTask::kEmbed: return model.kind == ModelKind::kEmbedding;
    case ModelTask::kClassify: return model.kind == ModelKind::kClassifying;
    case ModelTask::kScore: break;
  }
  return model.kind == ModelKind::kEmbedding ||
         (model.kind == ModelKind::kClassifying && model.labels.size() == 1 && !model.classifies_trees);
}

}  // namespace troupe
