// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/live_run.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "loadgen/client/calibration.hpp"
#include "loadgen/client/exact_prompts.hpp"
#include "loadgen/client/machine.hpp"
#include "loadgen/client/server/server_check.hpp"
#include "loadgen/client/server/server_sampler.hpp"
#include "loadgen/result/steadiness.hpp"
#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/toml/setting_check.hpp"
#include "telemetry/cpu_list.hpp"

namespace troupe::loadgen {
namespace {

using Kind = ArrivalSettings::Kind;
using Content = ClassSettings::Content;

// Where a server does not say: large vocabularies and English.
constexpr double kUsualTokensPerWord = 1.3;

std::string arrivals_text(const ArrivalSettings& arrivals) {
  const auto rate = number_text(mean_rate(arrivals)) + "/s";
  switch (arrivals.kind) {
    case Kind::kAtOnce: return "all at once";
    case Kind::kConstant: return "constant gaps, " + rate;
    case Kind::kPoisson: return "Poisson, " + rate;
    case Kind::kGamma: return "Gamma of shape " + number_text(arrivals.burstiness) + ", " + rate;
    case Kind::kMarkov: return "Markov-modulated Poisson, " + rate + " on average";
    case Kind::kProfile: return "rate profile, " + rate + " on average";
    case Kind::kReplay: return "replay at " + number_text(arrivals.speed) + " times its speed";
    case Kind::kClosed: return "closed loop, " + std::to_string(arrivals.users) + " users";
  }
  return {};
}

// Whether only `duration` ends the plan.
bool fills_duration(const WorkloadSettings& workload) {
  const auto kind = workload.arrivals.kind;
  const bool has_endless_arrivals = kind != Kind::kAtOnce && kind != Kind::kProfile && kind != Kind::kReplay;
  const bool has_endless_content =
      std::all_of(workload.classes.begin(), workload.classes.end(),
                  [](const auto& c) { return c.content != Content::kTrace || c.repeats; });
  return workload.duration_s > 0 && workload.max_conversations == 0 && has_endless_arrivals &&
         has_endless_content;
}

bool needs_synthetic_words(const WorkloadSettings& workload) {
  return std::any_of(workload.classes.begin(), workload.classes.end(),
                     [](const auto& c) { return c.content != Content::kQuestions || c.prefix.count > 0; });
}

class LiveRunner {
 public:
  LiveRunner(const LiveRunSettings& settings, const OnStatus& on_status)
      : settings_(settings), load_(settings.load), on_status_(on_status) {}

  LiveRun run() {
    const auto source = make_source(settings_.workload, settings_.seed);  // before anybody is asked anything
    const auto classes = request_classes(settings_.workload);
    look_at_server();
    const auto prompts = make_prompts(classes);
    plan_load();
    note_settings();
    if (settings_.calibrates) calibrate_generator();
    std::optional<ServerSampler> sampler;
    if (settings_.sample_period.count() > 0)
      sampler.emplace(load_.client.server, load_.client.api_key, settings_.sample_period);
    auto played = run_load(load_, classes, *source, prompts, on_status_);
    finish(played);
    for (auto& warning : source->warnings()) warn(std::move(warning));
    if (sampler) run_.result.samples = sampler->stop(played.begin);
    return std::move(run_);
  }

 private:
  void look_at_server() {
    const auto& client = load_.client;
    check_health(client.server);
    load_.sampling.model = find_model(client.server, client.api_key, load_.sampling.model);
  }

  TurnPrompts make_prompts(const std::vector<RequestClass>& classes) {
    const PromptWriter writer(settings_.prompt_seed.value_or(settings_.seed));
    if (settings_.prompt_ids) {
      const auto range = *settings_.prompt_ids;
      return {.words = {}, .ids = [writer, range](const PlannedConversation& plan, std::size_t turn) {
                return writer.token_ids(plan, turn, range);
              }};
    }
    const bool has_trees = std::any_of(classes.begin(), classes.end(),
                                       [](const auto& c) { return c.trees != TreeShape::kNone; });
    if (has_trees && load_.endpoint != Endpoint::kClassify)
      throw std::runtime_error("a class of trees needs the endpoint classify");
    if (settings_.tokenizer && !has_trees) {
      const ExactPrompts exact(writer, settings_.tokenizer);
      return {.words = [exact](const PlannedConversation& plan,
                               std::size_t turn) { return exact.text(plan, turn); },
              .ids = {}};
    }
    const bool is_measured = !has_trees && needs_synthetic_words(settings_.workload);
    const double tokens_per_word = is_measured ? tokens_per_word_of_server() : 1;
    return {.words =
                [writer, trees = PromptWriter(settings_.seed), tokens_per_word, classes](
                    const PlannedConversation& plan, std::size_t turn) {
                  const TreeShape shape = classes.at(plan.request_class).trees;
                  return shape == TreeShape::kNone ? writer.text(plan, turn, tokens_per_word)
                                                   : trees.tree(plan, turn, shape);
                },
            .ids = {}};
  }

  double tokens_per_word_of_server() {
    const auto& client = load_.client;
    const double measured =
        measure_tokens_per_word(client.server, client.api_key, load_.endpoint, load_.sampling.model);
    if (measured == 0) warn("the server does not say how long prompts are; taken: 1.3 tokens a word");
    const double tokens_per_word = measured > 0 ? measured : kUsualTokensPerWord;
    note("tokens per word", number_text(tokens_per_word));
    return tokens_per_word;
  }

  void plan_load() {
    const auto& workload = settings_.workload;
    load_.num_users = workload.arrivals.kind == Kind::kClosed ? workload.arrivals.users : 0;
    load_.duration = seconds_to_nanoseconds(workload.duration_s);
    load_.plan_fills_duration = fills_duration(workload);
  }

  void note_settings() {
    const auto& workload = settings_.workload;
    std::vector<std::pair<std::string, std::string>> settings = {
        {std::string(kServerSetting), load_.client.server.url()},
        {"model", load_.sampling.model},
        {"endpoint", std::string(endpoint_path(load_.endpoint))},
        {"workload", workload.name},
        {"arrivals", arrivals_text(workload.arrivals)}};
    if (load_.num_users > 0) settings.emplace_back(kUsersSetting, std::to_string(load_.num_users));
    settings.emplace_back(kSeedSetting, std::to_string(settings_.seed));
    if (settings_.prompt_seed) settings.emplace_back("prompt seed", std::to_string(*settings_.prompt_seed));
    if (workload.duration_s > 0) settings.emplace_back("duration", number_text(workload.duration_s) + " s");
    if (workload.max_conversations > 0)
      settings.emplace_back("conversations", "at most " + std::to_string(workload.max_conversations));
    settings.emplace_back("streaming", load_.sampling.is_streamed ? "yes" : "no");
    if (settings_.counts_completed_only) settings.emplace_back(kPercentilesSetting, kOfCompleted);
    settings.emplace_back("temperature", number_text(load_.sampling.temperature));
    settings.emplace_back("troupe-loadgen", TROUPE_VERSION);
    const auto version = server_version(load_.client.server, load_.client.api_key);
    settings.emplace_back("server version", version.empty() ? "not said" : version);
    if (!settings_.cpus.empty()) settings.emplace_back("generator on cpus", cpu_list_text(settings_.cpus));
    for (auto& fact : generator_machine()) settings.push_back(std::move(fact));
    run_.result.settings.insert(run_.result.settings.begin(), settings.begin(), settings.end());
  }

  std::string default_name() const {
    const auto& workload = settings_.workload;
    auto name = workload.name;
    if (load_.num_users > 0)
      name += "-" + std::to_string(load_.num_users) + "users";
    else if (mean_rate(workload.arrivals) > 0)
      name += "-" + number_text(mean_rate(workload.arrivals)) + "rps";
    return name + "-seed" + std::to_string(settings_.seed);
  }

  void finish(LoadRun& played) {
    auto earlier = std::move(run_.result);  // settings and warnings
    run_.result = std::move(played.result);
    auto& result = run_.result;
    result.settings = std::move(earlier.settings);
    note("load average after", load_average());
    note("realtime generator", played.was_realtime ? "yes" : "no");
    result.warnings.insert(result.warnings.begin(), earlier.warnings.begin(), earlier.warnings.end());
    result.name = settings_.name.empty() ? default_name() : settings_.name;
    result.offered_rate = load_.num_users > 0 ? 0 : mean_rate(settings_.workload.arrivals);
    run_.was_interrupted = played.was_interrupted;
    run_.was_given_up = played.was_given_up;
    check_honesty(played.start_delay_p99);
    if (auto text = unsteadiness(result); !text.empty()) warn(std::move(text));
  }

  void calibrate_generator() {
    calibration_ = calibrate(CalibrationEffort::kShort, {});
    note("honest rate", calibration_text(*calibration_));
  }

  void check_honesty(std::chrono::nanoseconds start_delay_p99) {
    if (start_delay_p99 > kHonestDelay)
      warn_of_rate(
          "one request in a hundred was begun more than " +
          number_text(std::round(std::chrono::duration<double, std::milli>(start_delay_p99).count())) +
          " ms late, by us");
    if (!calibration_) return;
    const auto busiest = busiest_second(run_.result);
    const auto check = [this](double rate, double honest, bool is_at_least, const char* unit) {
      if (rate > honest && !is_at_least)
        warn_of_rate(number_text(rate) + " " + unit + " in the busiest second, honest are " +
                     calibration_text(*calibration_));
    };
    check(busiest.requests, calibration_->requests_per_second, calibration_->are_requests_at_least,
          "requests");
    check(busiest.chunks, calibration_->chunks_per_second, calibration_->are_chunks_at_least, "chunks");
  }

  void warn_of_rate(const std::string& why) {
    run_.result.is_beyond_honest_rate = true;
    warn("beyond the honest rate: " + why);
  }

  void note(std::string name, std::string value) {
    run_.result.settings.emplace_back(std::move(name), std::move(value));
  }
  void warn(std::string text) { run_.result.warnings.push_back(std::move(text)); }

  const LiveRunSettings& settings_;
  LoadSettings load_;
  const OnStatus& on_status_;
  LiveRun run_;
  std::optional<Calibration> calibration_;
};

}  // namespace

LiveRun run_live(const LiveRunSettings& settings, const OnStatus& on_status) {
  const ThreadOnCpus placed(settings.cpus);
  return LiveRunner(settings, on_status).run();
}

}  // namespace troupe::loadgen
