// SPDX-License-Identifier: Apache-2.0
// A file of turns whose bytes were changed while no process had it open: what is damaged is no
// part, and whatever it says, the memory of turns takes it without a fault.
//
// The input is damages of four bytes: a kind, a place (two bytes) and a value.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/turn_keeping.hpp"
#include "store/turn_file.hpp"
#include "telemetry/log.hpp"
#include "tests/actors/byte_model.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"
#include "text/history/history_encoding.hpp"

namespace troupe::fuzz {
namespace {

// As store/turn_file.cpp has it.
constexpr std::size_t kHeaderBytes = 8, kHeadBytes = 48, kSizeAt = 8, kChecksumAt = 40;
constexpr std::uint32_t kErased = 2;
constexpr std::uint64_t kVocabulary = 7;

// Parts 1, 2 and 4 of a chat; 3 was erased. Each text is as long as the others.
StoredTurn part(std::uint64_t number, std::uint64_t before) {
  const std::string text = "question " + std::to_string(number), answer = "answer " + std::to_string(number);
  const auto begin = (number < 3 ? number - 1 : number - 2) * (text.size() + answer.size());
  StoredTurn turn{.number = number,
                  .before = before,
                  .written = 1'000'000,
                  .tenant = "ada",
                  .scope = turn_scope(kVocabulary, "salt"),
                  .key = number,
                  .begin = begin,
                  .text = text,
                  .trusted = {{begin, begin + 2}},
                  .answer = answer};
  const std::string all = text + answer;
  turn.tokens.assign(all.begin(), all.end());
  return turn;
}

std::vector<StoredTurn> whole_chat() { return {part(1, 0), part(2, 1), part(4, 2)}; }

struct Damaged {
  std::string file;
  bool is_signed = false;
};

// The directory of the file, and what the file was before it was damaged.
class Place {
 public:
  Place() {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    TurnFile file(*directory_);
    for (const StoredTurn& turn : {part(1, 0), part(2, 1), part(3, 2), part(4, 2)}) {
      blocks_.push_back(std::filesystem::file_size(path()));
      require(file.add(turn), "a new part has no room");
    }
    require(file.erase(3), "a part can't be erased");
    whole_ = test::file_text(path());
  }

  std::filesystem::path path() const { return root_.path() / kTurnFileName; }
  void write(const std::string& bytes) const { root_.write(kTurnFileName, bytes); }
  const std::shared_ptr<const StateDirectory>& directory() const { return directory_; }
  const std::string& whole() const { return whole_; }
  std::size_t num_blocks() const { return blocks_.size(); }
  std::size_t begin_of(std::size_t block) const { return blocks_.at(block); }
  std::size_t block_bytes() const { return blocks_[1] - blocks_[0]; }

 private:
  TemporaryDirectory root_;
  std::shared_ptr<const StateDirectory> directory_ = std::make_shared<const StateDirectory>(root_.path());
  std::vector<std::size_t> blocks_;  // where they begin
  std::string whole_;
};

void flip(std::string& file, std::size_t at, unsigned char value) {
  if (!file.empty()) file[at % file.size()] = static_cast<char>(file[at % file.size()] ^ value);
}

void put_number(std::string& file, std::size_t at, unsigned char value) {
  constexpr std::uint64_t kNumbers[] = {
      0, 1, 2, 3, 4, 0x10, 0xFFFFFFFF, std::uint64_t{1} << 62, ~std::uint64_t{7}, ~std::uint64_t{0}};
  const std::uint64_t number = kNumbers[value % std::size(kNumbers)];
  if (at + sizeof(number) <= file.size()) std::memcpy(file.data() + at, &number, sizeof(number));
}

// As only somebody would do it who knows the format: each block that is whole gets its checksum.
void sign(std::string& file) {
  for (std::size_t at = kHeaderBytes; at + kHeadBytes <= file.size();) {
    char* head = file.data() + at;
    std::uint32_t kind = 0;
    std::uint64_t num_bytes = 0;
    std::memcpy(&kind, head + sizeof(kind), sizeof(kind));
    std::memcpy(&num_bytes, head + kSizeAt, sizeof(num_bytes));
    if (num_bytes > file.size() - at - kHeadBytes) return;
    std::memset(head + kChecksumAt, 0, sizeof(std::uint64_t));
    const auto seed = XXH3_64bits_withSeed(head, kHeadBytes, at);
    const std::uint64_t sum = XXH3_64bits_withSeed(head + kHeadBytes, kind == kErased ? 0 : num_bytes, seed);
    std::memcpy(head + kChecksumAt, &sum, sizeof(sum));
    at += kHeadBytes + num_bytes;
  }
}

void damage(const Place& place, Damaged& damaged, unsigned kind, std::size_t at, unsigned char value) {
  std::string& file = damaged.file;
  const std::size_t block = place.begin_of(value / 16 % place.num_blocks());
  const std::size_t other = place.begin_of(value % place.num_blocks());
  switch (kind % 8) {
    case 0: return flip(file, at, value);
    case 1: return flip(file, other + at % kHeadBytes, value);
    case 2: return put_number(file, block + at % place.block_bytes(), value);
    case 3: return file.resize(std::min(file.size(), at));
    case 4:
      if (std::max(block, other) + place.block_bytes() > file.size()) return;
      return static_cast<void>(std::memmove(file.data() + other, file.data() + block, place.block_bytes()));
    case 5:
      if (file.size() < 16 * place.block_bytes()) file += place.whole().substr(block, place.block_bytes());
      return;
    case 6:
      if (block + place.block_bytes() > file.size()) return;
      return static_cast<void>(
          std::memset(file.data() + block + kHeadBytes, 0, at % (place.block_bytes() - kHeadBytes)));
    default: damaged.is_signed = true; sign(file);
  }
}

void check_goes_on(const Place& place, std::vector<StoredTurn> stored) {
  constexpr std::uint64_t kNumber = 1'000'000;
  const auto is_it = [](const StoredTurn& turn) { return turn.number == kNumber; };
  if (std::ranges::any_of(stored, is_it)) return;
  const StoredTurn added = part(kNumber, stored.empty() ? 0 : stored.back().number);
  if (added.before > kNumber) return;
  {
    TurnFile file(*place.directory());
    require(file.add(added), "a part can't be added");
  }
  stored.push_back(added);
  TurnFile file(*place.directory());
  require(file.take_stored() == stored, "the next process has other parts than this one had");
  for (const StoredTurn& turn : stored) require(file.erase(turn.number), "a part can't be erased");
  const auto left = test::file_text(place.path());
  require(left.find(added.answer) == std::string::npos, "an erased part is still there");
  require(TurnFile(*place.directory()).take_stored().empty(), "an erased part comes back");
}

// The chat goes on, with a question more.
void check_remembered(const Place& place, bool is_signed) {
  EngineModel model{.served = byte_model(), .make_device = {}};
  model.served.vocabulary = kVocabulary;
  const auto memory = std::make_shared<TurnMemory>(TurnMemoryLimits{});
  {
    const std::vector<EngineModel> models = {model};
    const TurnKeeping keeping(place.directory(), memory, models, std::chrono::seconds(0));
  }
  require(TurnFile(*place.directory()).take_stored().size() == memory->size().num_parts,
          "the file has parts that are not remembered");
  RenderedText rendered;
  for (const StoredTurn& turn : whole_chat()) {
    rendered.text += turn.text + turn.answer;
    for (const auto& range : turn.trusted) rendered.trusted.push_back({range.begin, range.end});
  }
  rendered.text += "and more";
  const std::vector<std::uint64_t> keys = {1, 2, 4, 5};
  EncodingBudget budget;
  const auto prompt = encode_with_history(*model.served.tokenizer, rendered, keys, "ada",
                                          turn_scope(kVocabulary, "salt"), *memory, budget);
  require(is_signed || model.served.tokenizer->decode(prompt.tokens) == rendered.text,
          "the tokens are another text's");
}

}  // namespace

void fuzz_turn_file(std::string_view bytes) {
  static const Place place;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  Damaged damaged{.file = place.whole()};
  for (std::size_t at = 0; at + 4 <= bytes.size() && at < 256; at += 4)
    damage(place, damaged, byte(at), byte(at + 1) * 256U + byte(at + 2), byte(at + 3));
  place.write(damaged.file);
  const auto stored = TurnFile(*place.directory()).take_stored();
  const auto chat = whole_chat();
  require(damaged.is_signed ||
              (stored.size() <= chat.size() && std::equal(stored.begin(), stored.end(), chat.begin())),
          "a damaged part is taken for right");
  check_remembered(place, damaged.is_signed);
  check_goes_on(place, TurnFile(*place.directory()).take_stored());
}

}  // namespace troupe::fuzz
