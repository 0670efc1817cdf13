// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/running_head.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr double kHalf = 0.5;

// The name of a look: other looks at the answer differ by the place, those at other answers by the rest.
std::uint64_t name_of(std::uint64_t answer, const AnswerLooks::Look& look) {
  return answer * 0x9E3779B97F4A7C15U + look.at;
}

SeenLength behind(const AnswerLooks::Look& look, SeenLength length) {
  return {.num_tokens = std::max(length.num_tokens, look.at + 1) - look.at, .is_whole = length.is_whole};
}

}  // namespace

std::optional<RunningHead::Guess> RunningHead::look(AnswerLooks& looks, const Sight& sight,
                                                    const LengthBelief* at_prefill) {
  const std::uint32_t at = sight.sizes.generated, most = std::max(1U, sight.sizes.most);
  if (at <= looks.at) return std::nullopt;
  auto features = learnt_.features.take(sight.state, sight.sizes);
  if (!features) return std::nullopt;
  AnswerLooks::Look look{.at = at, .standing = sight.standing, .features = *std::move(features)};
  std::optional<Guess> guess;
  if (learnt_.hazards.num_learnt() >= kFewLooks) {
    LengthBelief rest = learnt_.hazards.belief(look.features);
    if (looks.rest) {
      rest = looks.rest->behind(at - looks.at).pooled(rest);
    } else if (at_prefill != nullptr) {
      rest = at_prefill->behind(at).pooled(rest);
    }
    look.rest = learnt_.calibration.apply(std::clamp(rest.quantile(quantile_), 1U, most), most);
    guess = {.reserved = look.rest.reserved, .likely = std::clamp(rest.quantile(kHalf), 1U, most)};
    looks.rest = rest;
  }
  looks.at = at;
  keep(looks, std::move(look));
  return guess;
}

void RunningHead::aim_at(double quantile) {
  quantile_ = quantile;
  learnt_.calibration.aim_at(quantile);
}

// Where there are too many, every other one goes.
void RunningHead::keep(AnswerLooks& looks, AnswerLooks::Look look) {
  if (looks.num++ % looks.stride != 0) return;
  if (looks.kept.size() == kKeptLooks) {
    for (std::size_t i = 1; i < kKeptLooks / 2; ++i) looks.kept[i] = std::move(looks.kept[2 * i]);
    looks.kept.resize(kKeptLooks / 2);
    looks.stride *= 2;
  }
  looks.kept.push_back(std::move(look));
}

void RunningHead::learn_running(std::uint64_t answer, AnswerLooks& looks, std::uint32_t num_tokens) {
  for (AnswerLooks::Look& look : looks.kept) {
    const SeenLength so_far{.num_tokens = num_tokens - std::min(num_tokens, look.at), .is_whole = false};
    if (so_far.num_tokens <= look.told) continue;
    learnt_.hazards.learn(look.features,
                          {.id = name_of(answer, look), .length = so_far, .told = look.told, .runs = true});
    look.told = so_far.num_tokens;
  }
}

JudgedLooks RunningHead::learn(std::uint64_t answer, const AnswerLooks& looks, SeenLength length,
                               SeenLength learnt) {
  JudgedLooks judged;
  for (const AnswerLooks::Look& look : looks.kept) {
    learnt_.hazards.learn(look.features,
                          {.id = name_of(answer, look), .length = behind(look, learnt), .told = look.told});
    const auto has_fitted =
        look.rest.reserved > 0 ? fits(look.rest.reserved, behind(look, length)) : std::nullopt;
    if (!has_fitted) continue;
    learnt_.calibration.learn(look.rest, *has_fitted);
    const auto loss = pinball_loss(quantile_, look.at + look.rest.reserved, length);
    const auto standing_loss = pinball_loss(quantile_, look.standing, length);
    if (!loss || !standing_loss) continue;  // one alone would count against one side only
    judged.num += 1;
    judged.num_fitted += *has_fitted ? 1 : 0;
    judged.loss += *loss;
    judged.standing_loss += *standing_loss;
  }
  return judged;
}

}  // namespace troupe
