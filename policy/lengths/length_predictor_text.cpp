// SPDX-License-Identifier: Apache-2.0
// The predictor as text, and back. A line for each thing that was learnt, and at the end
// a sum over all in front of it:
//
//   troupe-lengths 2
//   calibration 0.25 0.1           at arrival, and at the end of the prefill
//   key 9f3c… 12 340+ …            newest last; +: it was cut off
//   judged 12.5 11.5 3 2 1 40 0.7  losses by stage, whether it fitted what, the logarithm's error
//   features 412 0.25 …            if the head has learnt: its features' means and spreads,
//   head 380 0.5 …                 the answers it has learnt of, and its weights
//   sum 1234…
//
// Version 1 knew no states, has one calibration, and of an answer its losses by three stages
// and whether it fitted.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>
#include <vector>

#include "policy/lengths/length_predictor.hpp"

namespace troupe {
namespace {

constexpr std::string_view kHead = "troupe-lengths 2";
constexpr std::string_view kOlderHead = "troupe-lengths 1";

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

std::optional<double> finite_in(std::string_view word) {
  const auto number = number_in<double>(word);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

void append_all(std::string& text, const std::vector<float>& numbers) {
  for (const float number : numbers) append(text, number);
}

std::optional<std::vector<float>> floats_in(std::span<const std::string_view> words) {
  std::vector<float> numbers;
  numbers.reserve(words.size());
  for (const std::string_view word : words) {
    const auto number = number_in<float>(word);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
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

}  // namespace

std::string LengthPredictor::encode() const {
  std::string text(kHead);
  text += "\ncalibration";
  append(text, calibration_);
  append(text, refined_calibration_);
  text += "\nlearnt";
  append(text, num_learnt_);
  const std::map<std::uint64_t, const Known*> by_key = [this] {
    std::map<std::uint64_t, const Known*> keys;
    for (const auto& [key, known] : known_) keys.emplace(key, &known);
    return keys;
  }();
  for (const auto& [key, known] : by_key) {
    text += "\nkey";
    append(text, key);
    for (const SeenLength& length : known->lengths.in_order()) {
      append(text, length.num_tokens);
      if (!length.is_whole) text += '+';
    }
  }
  for (const Judged& judged : losses_) {
    text += "\njudged";
    for (const double loss : judged.losses) append(text, loss);
    append(text, judged.has_fitted ? 1 : 0);
    append(text, judged.guess);
    append(text, judged.log_error);
  }
  if (head_.num_learnt() > 0) {
    text += "\nfeatures";
    append_all(text, features_.numbers());
    text += "\nhead";
    append(text, head_.num_learnt());
    append_all(text, head_.numbers());
  }
  text += '\n';
  const std::uint64_t sum = sum_of(text);
  text += "sum";
  append(text, sum);
  text += '\n';
  return text;
}

std::optional<LengthPredictor> LengthPredictor::decode(std::string_view text, double quantile) {
  const auto last = text.rfind("\nsum ");
  if (last == std::string_view::npos || !text.ends_with('\n')) return std::nullopt;
  const auto sum = number_in<std::uint64_t>(text.substr(last + 5, text.size() - last - 6));
  if (!sum || *sum != sum_of(text.substr(0, last + 1))) return std::nullopt;
  const auto lines = split(text.substr(0, last), '\n');
  if (lines.front() != kHead && lines.front() != kOlderHead) return std::nullopt;
  LengthPredictor predictor(quantile);
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (!predictor.take_line(split(lines[i], ' '))) return std::nullopt;
  return predictor;
}

// False: it makes no sense.
bool LengthPredictor::take_line(std::span<const std::string_view> words) {
  if (words[0] == "calibration" && (words.size() == 2 || words.size() == 3)) {
    const auto first = finite_in(words[1]), last = finite_in(words.back());
    if (!first || !last || std::abs(*first) > kMostCalibration || std::abs(*last) > kMostCalibration)
      return false;
    calibration_ = *first;
    refined_calibration_ = words.size() == 3 ? *last : 0;
    return true;
  }
  if (words[0] == "learnt" && words.size() == 2) {
    const auto number = number_in<std::uint64_t>(words[1]);
    num_learnt_ = number.value_or(0);
    return number.has_value();
  }
  if (words[0] == "key" && words.size() >= 2) {
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
  if (words[0] == "features") {
    const auto numbers = floats_in(words.subspan(1));
    return numbers && features_.restore(*numbers);
  }
  if (words[0] == "head" && words.size() >= 2) {
    const auto num_learnt = number_in<std::uint64_t>(words[1]);
    const auto numbers = floats_in(words.subspan(2));
    return num_learnt && numbers && head_.restore(*num_learnt, *numbers);
  }
  return words[0] == "judged" && take_judged(words.subspan(1));
}

bool LengthPredictor::take_judged(std::span<const std::string_view> words) {
  const bool is_older = words.size() == kNumKeys + 1;
  if ((!is_older && words.size() != kNumStages + 3) || losses_.size() >= kJudgedAnswers) return false;
  const std::size_t num_losses = is_older ? kNumKeys : kNumStages;
  Judged judged{.has_fitted = words[num_losses] == "1"};
  for (std::size_t i = 0; i < kNumStages; ++i) {
    const auto loss = finite_in(words[std::min(i, num_losses - 1)]);
    if (!loss) return false;
    judged.losses[i] = *loss;
  }
  if (!is_older) {
    const auto guess = number_in<std::uint32_t>(words[num_losses + 1]);
    const auto error = finite_in(words[num_losses + 2]);
    if (!guess || !error) return false;
    judged.guess = *guess;
    judged.log_error = *error;
  }
  add(judged);
  return true;
}

}  // namespace troupe
