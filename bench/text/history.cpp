// SPDX-License-Identifier: Apache-2.0
// Text work of a follow-up to a long chat: rendered and spliced from what the server remembers of its turns
// (text/history/), over rendered and encoded anew, in processor time and page faults of one thread. Each pair
// is measured one behind the other, seven pairs a length of messages, whose answers were drawn in pieces of
// two bytes. Goal: 1 ms at 200,000 tokens. Usage: bench_history [TOKENS [MODEL_DIRECTORY]]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/processor_time.hpp"
#include "bench/statistics.hpp"
#include "text/chat_template.hpp"
#include "text/history/answer_record.hpp"
#include "text/history/history_encoding.hpp"
#include "text/history/message_chain.hpp"
#include "text/template_messages.hpp"

using namespace troupe;

namespace {

constexpr double kGoal = 1000;  // microseconds
constexpr int kPairs = 7;
constexpr std::size_t kNewBytes = 400;

struct Model {
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat_template;
};

std::string words(std::size_t num_bytes) {
  static constexpr const char* kWords[] = {"the ", "river ", "carried ", "seven ", "boats, ",
                                           "and ", "none ",  "of ",      "them ",  "turned. "};
  std::string text;
  for (std::size_t i = 0; text.size() < num_bytes; ++i) text += kWords[(i * i + i / 7) % std::size(kWords)];
  return text;
}

std::vector<TokenId> in_pieces(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < text.size(); i += 2)
    for (const TokenId token : tokenizer.encode(text.substr(i, 2))) tokens.push_back(token);
  return tokens;
}

RenderedText render(const Model& model, const std::vector<ChatMessage>& chat, std::string buffer = {}) {
  ChatTemplateInput input;
  input.messages = template_messages(chat, model.chat_template.tool_dialect());
  input.buffer = std::move(buffer);
  EncodingBudget budget;
  return std::get<0>(model.chat_template.render_text(std::move(input), budget));
}

// buffer: kept from chat to chat, as an encoding thread does.
PromptWithHistory encode(const Model& model, const std::vector<ChatMessage>& chat, TurnMemory& memory,
                         std::string& buffer) {
  EncodingBudget budget;
  auto rendered = render(model, chat, std::move(buffer));
  auto prompt = encode_with_history(*model.tokenizer, rendered, chain_keys(chat, 1), "", "", memory, budget);
  buffer = std::move(rendered.text);
  return prompt;
}

// A chat of so many tokens and its next question; every turn is remembered.
std::vector<ChatMessage> grow(const Model& model, std::size_t num_tokens, std::size_t message_bytes,
                              TurnMemory& memory, std::string& buffer) {
  std::vector<ChatMessage> chat;
  const auto text = words(message_bytes);
  const auto drawn = in_pieces(*model.tokenizer, text);
  const auto num_turns = 1 + num_tokens / (drawn.size() + model.tokenizer->encode(text).size());
  for (std::size_t turn = 0; turn < num_turns; ++turn) {
    chat.push_back({"user", std::to_string(turn) + " " + text});
    AnswerRecord record(encode(model, chat, memory, buffer).parts, "");
    for (const TokenId token : drawn) record.add_token(token);
    record.add_text(text);
    record.remember(*model.tokenizer, memory);
    chat.push_back({"assistant", text});
  }
  chat.push_back({"user", words(kNewBytes)});
  return chat;
}

void measure(const Model& model, std::size_t num_tokens, std::size_t message_bytes) {
  TurnMemory memory({.max_bytes = std::size_t{1} << 30});
  std::string buffer;
  const auto chat = grow(model, num_tokens, message_bytes, memory, buffer);
  std::vector<double> anew, rendered, spliced, ratios, faults;
  std::size_t num_run = 0, num_remembered = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const double begin = bench::microseconds_used();
    EncodingBudget budget;
    const auto text = render(model, chat);
    const double middle = bench::microseconds_used();
    const auto tokens = encode_chat(*model.tokenizer, text, budget);
    const long num_faults = bench::page_faults();
    const double end = bench::microseconds_used();
    const auto prompt = encode(model, chat, memory, buffer);
    const double last = bench::microseconds_used();
    faults.push_back(static_cast<double>(bench::page_faults() - num_faults));
    rendered.push_back(middle - begin);
    anew.push_back(end - begin);
    spliced.push_back(last - end);
    ratios.push_back((last - end) / (end - begin));
    num_run = prompt.tokens.size();
    num_remembered = prompt.num_remembered;
  }
  const auto ratio = bench::spread_of(ratios), splice = bench::spread_of(spliced);
  std::printf(
      "%5zu messages, %zu tokens, %zu remembered: spliced / anew %.4f (%.4f to %.4f); anew %.0f us, of it "
      "rendering %.0f; spliced %.0f us (%.0f to %.0f) and %.0f page faults, goal / spliced %.2f\n",
      chat.size(), num_run, num_remembered, ratio.median, ratio.minimum, ratio.maximum,
      bench::spread_of(anew).median, bench::spread_of(rendered).median, splice.median, splice.minimum,
      splice.maximum, bench::spread_of(faults).median, kGoal / splice.median);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t num_tokens = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 200'000;
  const std::string directory = argc > 2 ? argv[2] : TROUPE_SOURCE_DIR "/models/demo";
  auto chat_template = load_chat_template(directory);
  if (num_tokens == 0 || !chat_template) {
    std::fprintf(stderr, "usage: bench_history [TOKENS [MODEL_DIRECTORY]], a model with a chat template\n");
    return 2;
  }
  const Model model{load_tokenizer(directory), std::move(*chat_template)};
  for (const std::size_t message_bytes : {16'000, 4'000, 1'000}) measure(model, num_tokens, message_bytes);
  return 0;
}
