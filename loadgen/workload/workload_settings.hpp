// SPDX-License-Identifier: Apache-2.0
// Everything that defines a workload, as plain values: when conversations
// begin, of which classes they are and what is in them. From presets, TOML
// (workload_toml.hpp) or code; make_source() turns it into conversations.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// Tokens, turns or seconds. Samples are clamped to [min, max], except kFixed.
struct DistributionSettings {
  enum class Kind : std::uint8_t { kFixed, kUniform, kNormal, kLogNormal, kExponential, kQuantiles };

  Kind kind = Kind::kFixed;
  double mean = 0;    // kFixed: the value itself; not of kUniform and kQuantiles
  double stddev = 0;  // kNormal, kLogNormal
  double median = 0;  // kLogNormal, if above 0: this and sigma in place of mean and stddev
  double sigma = 0;   // kLogNormal: standard deviation of the logarithm
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  std::vector<double> quantiles;  // kQuantiles: at equal distances, from rank 0 to rank 1, or
  std::string file;               // a JSON file with them
  std::string key;                // and where in it: "azure_conv.input"
};

DistributionSettings fixed(double value);
DistributionSettings uniform(double min, double max);

struct MarkovState {
  double rate = 0;          // conversations a second; 0: silence
  double mean_dwell_s = 0;  // exponential
};

// The rate changes linearly from the begin to the end of the segment.
struct RateSegment {
  double duration_s = 0;
  double begin_rate = 0;
  double end_rate = 0;
};

struct ArrivalSettings {
  enum class Kind : std::uint8_t {
    kAtOnce,    // all at the begin
    kConstant,  // equal gaps
    kPoisson,
    kGamma,    // gaps of shape `burstiness`: 1 is Poisson, below 1 burstier
    kMarkov,   // Poisson whose rate jumps between states
    kProfile,  // the rate follows segments; the plan ends with the last one
    kReplay,   // the trace's own times, or `times_s`
    kClosed,   // no clock: users each wait for their answer
  };

  Kind kind = Kind::kPoisson;
  double rate = 1;        // conversations a second: kConstant, kPoisson, kGamma
  double burstiness = 1;  // kGamma
  std::vector<MarkovState> states;
  std::vector<RateSegment> segments;
  bool has_constant_gaps = false;  // kProfile: else Poisson
  double speed = 1;                // kReplay: 2 is twice as fast
  std::vector<double> times_s;     // kReplay: in place of the trace's
  std::uint32_t users = 1;         // kClosed
  DistributionSettings pause_s;    // kClosed: between two conversations of a user
};

// Conversations a second in the long run (kProfile: on average); 0 where the
// settings alone do not say: kAtOnce, kReplay, kClosed.
double mean_rate(const ArrivalSettings& arrivals);
// The same process, faster or slower (kMarkov and kProfile: all their rates).
// Throws std::runtime_error for kinds without a rate.
void set_mean_rate(ArrivalSettings& arrivals, double rate);

// A first part of prompts that conversations share; K of them, of L tokens each.
struct PrefixSettings {
  std::uint32_t count = 0;  // 0: nothing shared
  std::uint32_t tokens = 0;
  double zipf_exponent = 0;  // popularity of the k-th: 1 / k^exponent; 0: all alike
};

struct TraceSettings {
  enum class Format : std::uint8_t { kAzure, kMooncake, kBurstGpt, kShareGpt, kAgents, kPlan };

  std::string file;
  Format format = Format::kAzure;
  // On the trace's own clock, which begins with its first request.
  double from_s = 0;
  double until_s = std::numeric_limits<double>::infinity();
  std::uint64_t max_conversations = 0;   // 0: all
  double length_factor = 1;              // for prompts and answers
  std::uint32_t max_context_tokens = 0;  // conversations beyond are shrunk to fit; 0: any
  bool keeps_text = true;                // kShareGpt, kAgents, kPlan: send what was said, not as much
  bool only_usual_lengths = false;       // kShareGpt: vLLM's is_valid_sequence
};

// A share of the turns whose clients do something at a time of their own.
struct ImpatienceSettings {
  double share = 0;              // of the turns; 0: none
  DistributionSettings after_s;  // from the intended time
};

struct ClassSettings {
  enum class Content : std::uint8_t { kSynthetic, kQuestions, kTrace };

  RequestClass request_class;
  double share = 1;  // of the conversations, in proportion to the others'
  Content content = Content::kSynthetic;
  // kSynthetic
  DistributionSettings prompt_tokens = fixed(128);          // of each turn, without prefix and history
  std::optional<DistributionSettings> first_prompt_tokens;  // of the first turn, instead
  DistributionSettings output_tokens = fixed(128);          // 0: until the model ends
  std::optional<DistributionSettings>
      output_ratio;  // answers of so many times their prompt's tokens, instead
  DistributionSettings num_turns = fixed(1);
  DistributionSettings think_time_s;  // kQuestions and kTrace too, where they have none of their own
  PrefixSettings prefix;
  std::string questions_file;           // kQuestions, as question_content.hpp says
  std::vector<std::string> categories;  // kQuestions: only these; empty: all
  TraceSettings trace;                  // kTrace
  bool repeats = false;                 // kTrace: begins anew at its end, else the plan ends there
  ImpatienceSettings cancelled;         // turns whose client hangs up, which ends the conversation
  ImpatienceSettings stalled;           // turns whose client stops reading, and keeps the connection
};

struct WorkloadSettings {
  std::string name = "custom";  // the preset's, or the file's word
  ArrivalSettings arrivals;
  std::vector<ClassSettings> classes = std::vector<ClassSettings>(1);
  std::uint64_t max_conversations = 1000;  // 0: no limit
  double duration_s = 0;  // no conversation starts later; 0: no limit. Closed loop: the driver's part
};

// "chat", "questions", "sharegpt-like", "fixed-128-128". Throws
// std::runtime_error that names the known ones.
WorkloadSettings preset(std::string_view name);
std::vector<std::string> preset_names();

// Throws std::runtime_error: "arrivals.rate: expected a number above 0, got -3".
void check(const WorkloadSettings& settings);

// Neither a limit nor its arrivals nor a trace end the plan.
bool is_endless(const WorkloadSettings& settings);
// Conversations begin when the trace says, at arrivals.speed.
bool uses_trace_times(const WorkloadSettings& settings);
// The one class is a saved plan, which has classes of its own.
bool is_plan_replay(const WorkloadSettings& settings);

// The classes that RequestRecord::request_class counts. A saved plan's are read from its
// file, which may throw std::runtime_error.
std::vector<RequestClass> request_classes(const WorkloadSettings& settings);

// Checks the settings and opens the files they name; throws std::runtime_error
// that says what was expected and what came. So does next() of the result, at
// the line of a trace that makes no sense. Equal settings and seeds make equal
// plans; conversation n depends on n and the seed, not on the ones before it.
std::unique_ptr<ConversationSource> make_source(const WorkloadSettings& settings, std::uint64_t seed);

}  // namespace troupe::loadgen
