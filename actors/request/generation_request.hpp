// SPDX-License-Identifier: Apache-2.0
// A request for generated text as the HTTP layer and the command line hand it
// to the engine, and the events that come back. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/request/api_error.hpp"
#include "actors/request/prompt/tool_names.hpp"
#include "actors/request/tenant_account.hpp"
#include "engine/model_kind.hpp"
#include "engine/sequence_output.hpp"
#include "gpu/program/batch.hpp"
#include "policy/pages/cache_quotas.hpp"
#include "policy/searching/beam_search.hpp"
#include "store/stored_response.hpp"
#include "telemetry/tracing/trace_context.hpp"
#include "text/answer/answer_parser.hpp"
#include "text/chat_message.hpp"

namespace troupe {

struct ChatPrompt {
  std::vector<ChatMessage> messages;
  bool add_generation_prompt = true;
  // Functions that the model may call: a JSON array of {"type": "function", "function": {…}},
  // for templates that show it; empty: none.
  std::string tools = {};
  // The ones among them that may be called, as `tools`; empty: all.
  std::string callable_tools = {};
  bool has_strict_tool = false;  // one of them says so: no call may break its schema
  // The answer is taken apart: reasoning, and calls if there are tools.
  bool splits_answer = false;
  bool allows_calls = true;        // false: the tools are shown all the same, no call is drawn or read
  bool takes_one_call = false;     // the answer ends behind its first call
  bool demands_call = false;       // the answer is one or more calls
  std::string demanded_tool = {};  // with demands_call: of this function; empty: of any
  // The template is told to have the model reason or not, if it can be told
  // (text/thinking_switch.hpp); absent: as it does by itself.
  std::optional<bool> thinks = {};
};
struct TextPrompt {
  std::string text;
  bool adds_special_tokens = true;  // the model's own around it: BOS, [CLS]
  // Special tokens that the text spells are these tokens: its client applies the template itself.
  bool reads_special_tokens = false;
  // The text in front of this one in a pair, which many pairs may share; of inputs of a
  // model that encodes. Null: there is none.
  std::shared_ptr<const std::string> first = {};
  // The model writes what stands between text and this (text/fill_in.hpp). Absent: it goes
  // on behind text.
  std::optional<std::string> suffix = {};
};
struct TokenPrompt {
  std::vector<std::int32_t> tokens;
};

// Log-probabilities of prompts in one answer, alternatives included, of all its requests. Any thread.
class ScoreTally {
 public:
  // All that were added, with these.
  // Under a mutex: of an atomic one GCC 12 doubles the old value in place of adding the new one.
  std::uint64_t add(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return number_ += number;
  }

 private:
  std::mutex mutex_;
  std::uint64_t number_ = 0;
};

// Where a request came from: for traces, logs and timings. Nothing that is
// generated depends on it.
struct RequestOrigin {
  std::string request_id;         // X-Request-Id, checked: ours or the client's
  TraceContext trace;             // of the request's own span; not valid: the engine draws one
  SpanId parent = 0;              // the caller's span
  std::string tracestate;         // the caller's
  std::string_view method, path;  // of HTTP, literals; empty: it came another way
  bool is_stream = false;
  // Its first byte was read; the epoch: when it was submitted.
  std::chrono::steady_clock::time_point received;
};

// Fields of a turn of a conversation that the server keeps. Its
// prompt is a ChatPrompt with what is new.
struct ConversationTurn {
  std::string previous = {};      // the response it continues; empty: none
  std::string instructions = {};  // a system message in front; not part of what is continued
  bool is_stored = true;
  bool must_be_stored = false;  // asked for by name: without, the request fails
  std::int64_t created = 0;     // Unix seconds
  std::string settings = {};    // fields that the answer repeats, as JSON members
  ToolNames tool_names = {};    // of the prompt's tools
};

// The text of an answer has this form: tokens that would break it are not drawn.
struct OutputForm {
  enum class Kind : std::uint8_t { kJsonObject, kJsonSchema, kGrammar, kRegex };
  Kind kind = Kind::kJsonObject;
  std::string text = {};   // the schema as JSON, the grammar as GBNF, the regular expression
  std::string field = {};  // of the request, for errors
};

// Answers bound to a form that one client's request has under way at once.
inline constexpr std::uint32_t kMostBoundAnswers = 32;

// A request that is answered whether its client stays or not, by the next process if this
// one ends.
struct BackgroundRun {
  std::string body;           // the client's JSON: a later process reads it again
  std::uint64_t seed = 0;     // of its draws, if the client gave none
  bool is_journaled = false;  // found in the journal; if not, it is written there first
  // The answer's beginning, as an earlier process drew it, and with which tokenizer
  // (tokens_origin()).
  std::vector<std::int32_t> tokens = {};
  std::uint64_t vocabulary = 0;
  // If it is journaled: the place in the answer from which on its calls are not bound. None: all of them are,
  // if the request is one of those that bind them.
  std::optional<std::uint32_t> unbound_from = {};
};

// Searches have at most so many beams.
inline constexpr std::uint32_t kMostBeams = 16;

// The most likely answers are searched for (policy/searching/beam_search.hpp) and given at once, in place of
// drawn ones. By the model's own distribution: of how to draw, the end tokens and max_tokens count alone.
struct BeamWish {
  std::uint32_t width = 1;
  std::uint32_t num_answers = 1;  // at most `width`
  double length_penalty = 1.0;
  BeamStop stop = BeamStop::kHopeless;
};

// The use that a request has for its prompt.
enum class PromptUse : std::uint8_t {
  kRun,     // an answer to it
  kJudge,   // it is to be run later: refused as if it were run, or its tenant is charged. EncodedText, which
            // is empty, is the only event
  kEncode,  // its tokens: EncodedText is the only event
  kDecode,  // their text, of a TokenPrompt: so, too
};

struct GenerationRequest {
  std::string id;      // ours: "chatcmpl-…"; used in logs and traces
  std::string tenant;  // the owner
  // Requests of one flow take turns with those of others (policy/admitting/fair_queue.hpp):
  // the tenant, or without keys the client's network. Not what a client says of itself.
  std::string flow;
  ModelIndex model = 0;  // index into the engine's models
  std::variant<ChatPrompt, TextPrompt, TokenPrompt> prompt;
  SamplingParameters sampling;
  // sampling.seed was asked for, be it 0; if not, and it is 0, the engine draws one.
  bool has_seed = false;
  std::optional<std::uint32_t> max_tokens;  // absent: up to the context limit
  std::uint32_t min_tokens = 0;
  std::optional<std::uint32_t> foretold_tokens;  // of the answer, as its client foretells
  std::vector<std::string> stop;
  bool include_stop_in_output = false;
  std::vector<std::int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::vector<TokenBias> biased;   // each id once, at most kMaxBiases
  std::optional<OutputForm> form;  // absent: any text
  std::optional<BeamWish> beams = {};
  // Completions: the prompt's text comes first, and its log-probabilities with it if
  // those of the answer are wanted.
  bool echo = false;
  // Log-probabilities of the prompt's tokens, each with so many alternatives, in
  // Finished::prompt_scores; at most kMaxTopLogprobs.
  std::optional<std::uint32_t> prompt_logprobs = {};
  // How often its client gets this prompt's log-probabilities; 0: they are counted with another request.
  std::uint32_t num_score_copies = 1;
  std::shared_ptr<ScoreTally> scores_of_answer = {};  // null: it has no others than this prompt's
  std::string cache_salt;                        // KV pages are shared only between requests with the same
  CacheQuota cache_quota;                        // the tenant's part of the pages
  std::shared_ptr<const ConversationTurn> turn;  // null: a request by itself
  std::shared_ptr<const BackgroundRun> background = {};  // null: it ends with its client
  RequestOrigin origin;
  std::shared_ptr<TenantTab> tab = {};  // null: counted against no limit of its tenant
  PromptUse use = PromptUse::kRun;
  bool is_judged = false;  // with PromptUse::kJudge before: its tenant's limits have let it in
  // Answers that its client asked for, of which this is one; 0: another one said so already.
  std::uint32_t num_choices = 1;
  // Answers drawn to its prompt, of which this is the first; 0: another one said so already.
  std::uint32_t num_drawn_answers = 1;
  // It is compared with others: Finished::mean_logprob is wanted.
  bool is_ranked = false;
  // A place among the answers that are bound to forms, left by an earlier answer to its client, and with it a
  // place in front of requests that wait. Null: it takes both.
  std::shared_ptr<const void> form_place = {};
  bool leaves_form_place = false;  // Finished::form_place is wanted
  bool wants_token_texts = false;  // with kEncode

  // An input of a model that encodes: it is enclosed in the model's special tokens, and
  // its vector is wanted, no text.
  bool wants_vector = false;
  bool truncates = false;  // with wants_vector: an input that is too long loses its end

  bool is_to_be_run() const { return use == PromptUse::kRun || use == PromptUse::kJudge; }
  bool scores_echo() const { return echo && sampling.wants_logprobs(); }
  bool scores_prompt() const { return scores_echo() || prompt_logprobs.has_value(); }
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt, found in shared pages
  // The completion's, markers included, if the answer is taken apart.
  std::uint32_t reasoning_tokens = 0;
};

// Where a request's time went. Its parts do not overlap; what total has beyond
// their sum went into reading the request and between actors.
struct RequestTimings {
  std::chrono::nanoseconds encode{0};     // the prompt, if that took a thread of its own
  std::chrono::nanoseconds queue{0};      // waiting, for its turn and for pages
  std::chrono::nanoseconds load{0};       // waiting for KV that only the disk had
  std::chrono::nanoseconds prefill{0};    // with what had to be computed again
  std::chrono::nanoseconds decode{0};     // from a first token on
  std::chrono::nanoseconds suspended{0};  // the client did not read
  std::chrono::nanoseconds total{0};      // from its first byte to its last token
  std::uint32_t decoded_tokens = 0;       // that came in decode's time
  KvSources sources = {};
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

// A request in the background is in the journal, so it will be answered.
struct Journaled {
  std::optional<std::uint32_t> unbound_from = {};  // as BackgroundRun's
};
// The request was tokenized, validated, and has got its first turn: before, a refusal
// is all of the answer; from here on errors are in-band. Exactly one terminal event
// (Finished or Failed) ends every request.
struct Accepted {
  std::uint32_t prompt_tokens = 0;
};
// A token and how likely the model thought it to be.
struct LikelyToken {
  std::string text;   // UTF-8; U+FFFD for what is not
  std::string bytes;  // as they are: characters may be spread over tokens
  float logprob = 0.0F;
  std::int32_t id = -1;
};
// A token of the answer, of a request that asked for log-probabilities.
struct AnswerToken {
  LikelyToken token;
  std::vector<LikelyToken> top = {};  // the most likely at its place, best first
  std::uint32_t text_offset = 0;      // in the answer's text, in characters
  bool has_logprob = true;            // false: the first of all, which nothing precedes
};
// New text: complete UTF-8, nothing that may still become a stop string. Text
// may be empty where tokens only complete half a character.
struct TextDelta {
  std::string text;
  Usage usage;  // so far
  // Tokens whose text begins in this text, if they were asked for. Tokens without any
  // text go with what follows, or with the last delta.
  std::vector<AnswerToken> tokens = {};
  // Parts of an answer that is taken apart (ChatPrompt::splits_answer).
  std::string reasoning = {};
  std::vector<CallDelta> calls = {};
  bool is_empty() const { return text.empty() && tokens.empty() && reasoning.empty() && calls.empty(); }
};
// The prompt's tokens and how likely the model thought each behind those before it.
struct PromptScores {
  std::vector<AnswerToken> tokens;
};
struct FoundAnswer;
struct Finished {
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;  // the stop string that matched
  std::optional<std::int32_t> stop_token;  // the stop token id that matched
  Usage usage;
  RequestTimings timings = {};
  bool is_stored = false;     // a turn, and it will be there after a crash
  bool called_tools = false;  // and nothing else ended the answer early
  // Over the tokens of a ranked request's answer, the end token included; 0 without any.
  double mean_logprob = 0.0;
  std::shared_ptr<const PromptScores> prompt_scores = {};  // null: not asked for
  // Answers of a search (GenerationRequest::beams), the best first. Their text does not come as
  // TextDelta.
  std::shared_ptr<const std::vector<FoundAnswer>> found = {};
  // While it lives, these and those of an echo count among the log-probabilities that the server holds.
  std::shared_ptr<const void> scores_held = {};
  // Its place among the answers that are bound to forms (GenerationRequest::leaves_form_place). Null: it had
  // none.
  std::shared_ptr<const void> form_place = {};
};
// One of the answers that a search has found.
struct FoundAnswer {
  std::string text;
  Finished finished;  // its end and its own tokens
};
struct Failed {
  ApiError error;
};

// A question about what is stored, not a generation.
struct StoreQuery {
  enum class Kind : std::uint8_t { kFind, kRemove };
  Kind kind = Kind::kFind;
  std::string tenant;
  std::string cache_salt = {};  // its requests'
  std::string response;
};
// Its answer, or Failed: the only event.
struct StoreAnswer {
  std::shared_ptr<const StoredResponse> response;  // null: it was removed
};

// The answer to an EmbeddingRequest, or Failed: the only event.
struct Embedded {
  std::vector<float> vectors = {};  // [inputs, size], or [nodes of all inputs, size]
  std::uint32_t size = 0;
  struct Tree {
    std::uint32_t num_nodes = 0, root = 0;
  };
  std::vector<Tree> trees = {};           // by input; empty: inputs are none
  std::uint32_t prompt_tokens = 0;        // of all inputs, as they were run
  std::shared_ptr<const void> held = {};  // counted by the bound on such answers while it lives
};

// The answer to a request whose prompt is encoded or decoded and not run, or Failed: the
// only event.
struct EncodedText {
  std::string text;                      // of kDecode
  std::vector<std::int32_t> tokens;      // of kEncode
  std::vector<std::string> token_texts;  // as the vocabulary spells them, if they are wanted
};

using ResponseEvent =
    std::variant<Accepted, TextDelta, Finished, Failed, StoreAnswer, Embedded, EncodedText, Journaled>;

// Nothing comes after it.
inline bool is_terminal(const ResponseEvent& event) {
  return std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event) ||
         std::holds_alternative<StoreAnswer>(event) || std::holds_alternative<Embedded>(event) ||
         std::holds_alternative<EncodedText>(event);
}

}  // namespace troupe
