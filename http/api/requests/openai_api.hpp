// SPDX-License-Identifier: Apache-2.0
// Bodies of OpenAI's API, turned into requests for the engine. Pure:
// text in, values out. Every field is checked for type and range and named when
// it is wrong. Unknown fields are ignored; known ones that would change the
// meaning of the answer and are not supported are refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/request/api_error.hpp"
#include "actors/request/embedding_request.hpp"
#include "actors/request/generation_request.hpp"
#include "http/api/served_models.hpp"
#include "http/limits.hpp"

namespace troupe {

// kMessage: Anthropic's, a view of the same request; so are Ollama's.
enum class ResponseShape : std::uint8_t {
  kChat,
  kCompletion,
  kResponse,
  kMessage,
  kOllamaChat,
  kOllamaGenerate,
};
constexpr bool is_ollama(ResponseShape shape) {
  return shape == ResponseShape::kOllamaChat || shape == ResponseShape::kOllamaGenerate;
}

struct ApiRequest {
  GenerationRequest generation;  // without its id; BackgroundRun without its body
  ResponseShape shape = ResponseShape::kChat;
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage and no choices
  bool continuous_usage_stats = false;  // the usage so far in every chunk
  bool is_resumable = false;            // a stream: goes on without its client, which may come back
  bool wants_logprobs = false;          // generation.sampling says how many
  std::uint32_t num_choices = 1;        // answers to each prompt
  // Answers drawn for each prompt, at least num_choices: the most likely ones are given.
  std::uint32_t num_candidates = 1;
  // Completions: prompts behind generation.prompt, each with answers of its own.
  std::vector<std::variant<TextPrompt, TokenPrompt>> more_prompts = {};
  // Ollama's.
  std::string called_model = {};  // the model's name as the client says it, which answers repeat
  bool only_loads = false;        // there is no prompt: the model is to be loaded, which it is
};

enum class EmbeddingFormat : std::uint8_t {
  kFloat,   // a list of numbers
  kBase64,  // of their bytes: little-endian binary32
  kBare,    // a list of numbers without an object around it, as Ollama has it
};

// The answer that is made of vectors.
enum class VectorUse : std::uint8_t {
  kEmbeddings,
  kClasses,
  kScores,
  kRanks,
  kOllamaVectors,
  kOllamaVector,  // of its old endpoint: the only one
};

struct ApiEmbeddingRequest {
  EmbeddingRequest embedding = {};  // without its id
  VectorUse use = VectorUse::kEmbeddings;
  // Vectors.
  EmbeddingFormat format = EmbeddingFormat::kFloat;
  std::uint32_t dimensions = 0;  // the first ones of each vector; 0: all
  // Ollama's, as of ApiRequest.
  std::string called_model = {};
  bool only_loads = false;
  // Classes, scores and ranks.
  std::string id = {};          // "score-…", as in the engine
  std::int64_t created = 0;     // Unix seconds
  bool activates = true;        // a classifier's numbers become probabilities
  std::uint32_t num_first = 0;  // vectors in front that the others are compared with; 0: inputs are pairs
  std::uint32_t top_n = 0;      // of kRanks: the best so many; 0: all
  std::vector<std::string> documents = {};  // of kRanks: to be repeated; empty: they are not
};

// A text or messages whose tokens are wanted, or tokens whose text is.
struct ApiTokenRequest {
  enum class Answer : std::uint8_t { kTokens, kText, kCount };
  GenerationRequest generation;  // without its id; it is not run
  Answer answer = Answer::kTokens;
};

std::variant<ApiRequest, ApiError> parse_chat_request(std::string_view body, const ServedModels& models,
                                                      const Limits& limits);
std::variant<ApiRequest, ApiError> parse_completion_request(std::string_view body, const ServedModels& models,
                                                            const Limits& limits);
// A turn (GenerationRequest::turn), without the time it was created.
std::variant<ApiRequest, ApiError> parse_responses_request(std::string_view body, const ServedModels& models,
                                                           const Limits& limits);
// A body of Anthropic's Messages API, and the question how many tokens it would have.
std::variant<ApiRequest, ApiError> parse_messages_request(std::string_view body, const ServedModels& models,
                                                          const Limits& limits);
std::variant<ApiTokenRequest, ApiError> parse_count_tokens_request(std::string_view body,
                                                                   const ServedModels& models,
                                                                   const Limits& limits);
// Bodies of Ollama's API.
std::variant<ApiRequest, ApiError> parse_ollama_chat_request(std::string_view body,
                                                             const ServedModels& models,
                                                             const Limits& limits);
std::variant<ApiRequest, ApiError> parse_ollama_generate_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits);
std::variant<ApiEmbeddingRequest, ApiError> parse_ollama_embed_request(std::string_view body,
                                                                       const ServedModels& models,
                                                                       const Limits& limits);
std::variant<ApiEmbeddingRequest, ApiError> parse_ollama_embeddings_request(std::string_view body,
                                                                            const ServedModels& models,
                                                                            const Limits& limits);
std::variant<ModelIndex, ApiError> parse_ollama_show_request(std::string_view body,
                                                             const ServedModels& models,
                                                             const Limits& limits);
std::variant<ApiEmbeddingRequest, ApiError> parse_embedding_request(std::string_view body,
                                                                    const ServedModels& models,
                                                                    const Limits& limits);
// vLLM's: classes of texts, scores of pairs (text_1 with text_2); Cohere's and Jina's:
// documents in the order in which they answer a query.
std::variant<ApiEmbeddingRequest, ApiError> parse_classify_request(std::string_view body,
                                                                   const ServedModels& models,
                                                                   const Limits& limits);
std::variant<ApiEmbeddingRequest, ApiError> parse_score_request(std::string_view body,
                                                                const ServedModels& models,
                                                                const Limits& limits);
std::variant<ApiEmbeddingRequest, ApiError> parse_rerank_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits);
std::variant<ApiTokenRequest, ApiError> parse_tokenize_request(std::string_view body,
                                                               const ServedModels& models,
                                                               const Limits& limits);
std::variant<ApiTokenRequest, ApiError> parse_detokenize_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits);

}  // namespace troupe
