// SPDX-License-Identifier: Apache-2.0
// The predictor as text, and back. A line for each thing that was learnt, and at the end
// a sum over all in front of it:
//
//   troupe-lengths 4
//   model 9163…                    whose lengths they are: file and arithmetic
//   encoder 5120…                  so, too, whose vectors were read, if any were
//   calibration 0.25 0.1 …         at arrival
//   key 9f3c… 12 340+ …            newest last; +: it was cut off
//   judged 17 12 11 … 40 1 16 2 1 8.5 9   an answer's length; guesses by stage: reserved, likely; what was
//                                  reserved, whether it fitted (2: that did not show), likely; looks,
//                                  fitting ones, losses
//   prefill features 412 0.25 …    if the head has learnt: its features' means and spreads,
//   prefill head 380 0.5 …         the answers it has learnt of, and its weights,
//   prefill calibration 0.1 …      and by how much its guesses are off
//   running …                      so, too, of answers that run
//   reading …                      and of prompts that an encoder has read
//   sum 1234…
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <system_error>
#include <vector>

#include "policy/lengths/length_predictor.hpp"

namespace troupe {
namespace {

constexpr std::string_view kHead = "troupe-lengths 4";
constexpr std::uint32_t kNotShown = 2;  // in place of 1 or 0, if it fitted

std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 0xCBF29CE484222325U;  // FNV-1a
  for (const char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return sum;
}

template <typename Number>
void append(std::string& text, Number number) {
  std::array<char, 32> digits{};
  text += ' ';
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

template <typename Number>
std::optional<Number> number_in(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// A count of answers is at most 2^53: no server sees more, and sums with it don't wrap.
std::optional<std::uint64_t> count_in(std::string_view word) {
  const auto count = number_in<std::uint64_t>(word);
  return count && *count <= std::uint64_t{1} << 53U ? count : std::nullopt;
}

void append_all(std::string& text, const auto& numbers) {
  for (const auto number : numbers) append(text, number);
}

template <typename Number>
std::optional<std::vector<Number>> numbers_in(std::span<const std::string_view> words) {
  std::vector<Number> numbers;
  numbers.reserve(words.size());
  for (const std::string_view word : words) {
    const auto number = number_in<Number>(word);
    if (!number || !std::isfinite(static_cast<double>(*number))) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

void append(std::string& text, SeenLength length) {
  append(text, length.num_tokens);
  if (!length.is_whole) text += '+';
}

std::optional<SeenLength> length_in(std::string_view word) {
  const bool is_cut_off = word.ends_with('+');
  const auto number = number_in<std::uint32_t>(word.substr(0, word.size() - (is_cut_off ? 1 : 0)));
  if (!number) return std::nullopt;
  return SeenLength{.num_tokens = *number, .is_whole = !is_cut_off};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

void append(std::string& text, std::string_view name, const StateHead& head) {
  if (head.hazards.num_learnt() == 0) return;
  text += "\n" + std::string(name) + " features";
  append_all(text, head.features.numbers());
  text += "\n" + std::string(name) + " head";
  append(text, head.hazards.num_learnt());
  append_all(text, head.hazards.numbers());
  text += "\n" + std::string(name) + " calibration";
  append_all(text, head.calibration.numbers());
}

bool take_calibration(std::span<const std::string_view> words, Calibration& calibration) {
  const auto numbers = numbers_in<double>(words);
  return numbers && calibration.restore(*numbers);
}

// words: behind its name.
bool take_head(std::span<const std::string_view> words, StateHead& head) {
  if (words.empty()) return false;
  if (words[0] == "calibration") return take_calibration(words.subspan(1), head.calibration);
  if (words[0] == "features") {
    const auto numbers = numbers_in<float>(words.subspan(1));
    return numbers && head.features.restore(*numbers);
  }
  if (words[0] != "head" || words.size() < 2) return false;
  const auto num_learnt = count_in(words[1]);
  const auto numbers = numbers_in<float>(words.subspan(2));
  return num_learnt && numbers && head.hazards.restore(*num_learnt, *numbers);
}

// No sum of such losses is larger than what 32 bits count of tokens can cost.
bool is_possible(const JudgedLooks& looks) {
  const double most = static_cast<double>(looks.num) * std::numeric_limits<std::uint32_t>::max();
  const auto is_loss = [most](double loss) { return loss >= 0 && loss <= most; };
  return looks.num <= RunningHead::kKeptLooks && looks.num_fitted <= looks.num && is_loss(looks.loss) &&
         is_loss(looks.standing_loss);
}

void append(std::string& text, const JudgedAnswer& judged) {
  append(text, judged.length);
  for (const LengthGuess& guess : judged.guesses) {
    append(text, guess.reserved);
    append(text, guess.likely);
  }
  append(text, judged.reserved);
  append(text, judged.has_fitted ? std::uint32_t{*judged.has_fitted} : kNotShown);
  append(text, judged.likely);
  append(text, judged.looks.num);
  append(text, judged.looks.num_fitted);
  append(text, judged.looks.loss);
  append(text, judged.looks.standing_loss);
}

}  // namespace

std::string LengthPredictor::encode(std::uint64_t model, std::optional<std::uint64_t> encoder) const {
  std::string text(kHead);
  text += "\nmodel";
  append(text, model);
  if (encoder) {
    text += "\nencoder";
    append(text, *encoder);
  }
  text += "\ncalibration";
  append_all(text, calibration_.numbers());
  text += "\nlearnt";
  append(text, num_learnt_);
  std::map<std::uint64_t, const Known*> by_key;
  for (const auto& [key, known] : known_) by_key.emplace(key, &known);
  for (const auto& [key, known] : by_key) {
    text += "\nkey";
    append(text, key);
    for (const SeenLength& length : known->lengths.in_order()) append(text, length);
  }
  for (const JudgedAnswer& judged : accuracy_.answers()) {
    text += "\njudged";
    append(text, judged);
  }
  append(text, "prefill", at_prefill_);
  append(text, "running", running_.learnt());
  if (encoder) append(text, "reading", reading_);
  text += '\n';
  const std::uint64_t sum = sum_of(text);
  text += "sum";
  append(text, sum);
  text += '\n';
  return text;
}

std::optional<LengthPredictor> LengthPredictor::decode(std::string_view text, double quantile,
                                                       std::uint64_t model,
                                                       std::optional<std::uint64_t> encoder) {
  const auto last = text.rfind("\nsum ");
  if (last == std::string_view::npos || !text.ends_with('\n')) return std::nullopt;
  const auto sum = number_in<std::uint64_t>(text.substr(last + 5, text.size() - last - 6));
  if (!sum || *sum != sum_of(text.substr(0, last + 1))) return std::nullopt;
  const auto lines = split(text.substr(0, last), '\n');
  std::string expected = "model";
  append(expected, model);
  if (lines.size() < 2 || lines[0] != kHead || lines[1] != expected) return std::nullopt;
  LengthPredictor predictor(quantile);
  std::optional<std::uint64_t> encoder_then;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const auto words = split(lines[i], ' ');
    if (words[0] == "encoder" && words.size() == 2) {
      encoder_then = number_in<std::uint64_t>(words[1]);
      if (!encoder_then) return std::nullopt;
    } else if (!predictor.take_line(words)) {
      return std::nullopt;
    }
  }
  if (!encoder || encoder_then != encoder) predictor.forget_encoder();
  return predictor;
}

// False: it makes no sense.
bool LengthPredictor::take_line(std::span<const std::string_view> words) {
  if (words[0] == "calibration") return take_calibration(words.subspan(1), calibration_);
  if (words[0] == "prefill") return take_head(words.subspan(1), at_prefill_);
  if (words[0] == "running") return take_head(words.subspan(1), running_.learnt());
  if (words[0] == "reading") return take_head(words.subspan(1), reading_);
  if (words[0] == "judged") return take_judged(words.subspan(1));
  if (words[0] == "learnt" && words.size() == 2) {
    const auto number = count_in(words[1]);
    num_learnt_ = number.value_or(0);
    return number.has_value();
  }
  if (words[0] != "key" || words.size() < 2) return false;
  const auto key = number_in<std::uint64_t>(words[1]);
  if (!key || known_.size() >= kMostKeys) return false;
  Known& known = known_[*key];
  for (const std::string_view word : words.subspan(2)) {
    const auto length = length_in(word);
    if (!length) return false;
    known.lengths.add(*length);
  }
  return true;
}

bool LengthPredictor::take_judged(std::span<const std::string_view> words) {
  constexpr std::size_t kGuesses = 2 * kNumStages;
  if (words.size() != 1 + kGuesses + 7 || accuracy_.size() >= kJudgedAnswers) return false;
  const auto length = length_in(words[0]);
  const auto counts = numbers_in<std::uint32_t>(words.subspan(1, kGuesses + 5));
  const auto losses = numbers_in<double>(words.last(2));
  if (!length || !counts || !losses) return false;
  JudgedAnswer judged{.length = *length};
  for (std::size_t i = 0; i < kNumStages; ++i)
    judged.guesses[i] = {.reserved = (*counts)[2 * i], .likely = (*counts)[2 * i + 1]};
  const auto rest = std::span(*counts).subspan(kGuesses);
  judged.reserved = rest[0];
  if (rest[1] > kNotShown) return false;
  if (rest[1] == kNotShown) {
    if (length->is_whole) return false;
    judged.has_fitted.reset();
  } else {
    judged.has_fitted = rest[1] != 0;
  }
  judged.likely = rest[2];
  judged.looks = {.num = rest[3], .num_fitted = rest[4], .loss = (*losses)[0], .standing_loss = (*losses)[1]};
  if (!is_possible(judged.looks)) return false;
  accuracy_.add(judged);
  return true;
}

}  // namespace troupe
