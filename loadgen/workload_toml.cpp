// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload_toml.hpp"

#include <stdexcept>
#include <utility>

#include "loadgen/table_reader.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;

// Everything here is read in the context of one file.
class WorkloadReader {
 public:
  WorkloadReader(const toml::table& root, const std::filesystem::path& directory)
      : root_(root), directory_(directory) {}

  WorkloadSettings read() {
    WorkloadSettings settings;
    if (const auto* table = section("workload")) settings = read_general(*table);
    if (const auto* table = section("arrivals")) settings.arrivals = read_arrivals(*table);
    const auto tables = tables_of(root_.get("class"), "class");
    if (!tables.empty()) settings.classes.resize(tables.size());
    for (std::size_t i = 0; i < tables.size(); ++i)
      read_class(*tables[i], "class[" + std::to_string(i) + "]", settings.classes[i]);
    return settings;
  }

 private:
  const toml::table* section(const std::string& name) const {
    const auto* node = root_.get(name);
    if (node != nullptr && !node->is_table())
      refuse_at(node->source(), name + ": expected a table [" + name + "]");
    return node == nullptr ? nullptr : node->as_table();
  }

  static WorkloadSettings read_general(const toml::table& table) {
    TableReader reader(table, "workload");
    WorkloadSettings settings;
    if (const auto* node = reader.find("preset")) {
      std::string name;
      reader.read("preset", name);
      try {
        settings = preset(name);
      } catch (const std::runtime_error& error) {
        refuse_at(node->source(), error.what());
      }
    }
    reader.read("name", settings.name);
    reader.read("max_conversations", settings.max_conversations);
    reader.read("duration_s", settings.duration_s);
    reader.refuse_unknown_keys();
    return settings;
  }

  ArrivalSettings read_arrivals(const toml::table& table) const;
  void read_class(const toml::table& table, const std::string& name, ClassSettings& settings) const;
  void read_distribution(TableReader& parent, std::string_view key, DistributionSettings& settings) const;
  void read_trace(const toml::table& table, const std::string& name, TraceSettings& settings) const;
  std::string path_of(const std::string& text) const {
    return text.empty() ? text : (directory_ / text).lexically_normal().string();
  }

  const toml::table& root_;
  std::filesystem::path directory_;
};

void read_states(TableReader& reader, std::vector<MarkovState>& states) {
  for (const auto* table : tables_of(reader.find("states"), reader.name_of("states"))) {
    TableReader state(*table, reader.name_of("states"));
    state.read("rate", states.emplace_back().rate);
    state.read("mean_dwell_s", states.back().mean_dwell_s);
    state.refuse_unknown_keys();
  }
}

void read_segments(TableReader& reader, std::vector<RateSegment>& segments) {
  for (const auto* table : tables_of(reader.find("segments"), reader.name_of("segments"))) {
    TableReader segment(*table, reader.name_of("segments"));
    auto& settings = segments.emplace_back();
    segment.read("duration_s", settings.duration_s);
    segment.read("rate", settings.begin_rate);
    settings.end_rate = settings.begin_rate;
    segment.read("begin_rate", settings.begin_rate);
    segment.read("end_rate", settings.end_rate);
    segment.refuse_unknown_keys();
  }
}

// rates = [2, 4, 8], each held for step_s.
void read_steps(TableReader& reader, std::vector<RateSegment>& segments) {
  std::vector<double> rates;
  double step_s = 0;
  reader.read("rates", rates);
  reader.read("step_s", step_s);
  for (const double rate : rates) segments.push_back({step_s, rate, rate});
}

void read_ramp(TableReader& reader, std::vector<RateSegment>& segments) {
  auto& ramp = segments.emplace_back();
  reader.read("begin_rate", ramp.begin_rate);
  reader.read("end_rate", ramp.end_rate);
  reader.read("duration_s", ramp.duration_s);
}

// rate for before_s, peak_rate for peak_s, rate again for after_s.
void read_spike(TableReader& reader, std::vector<RateSegment>& segments) {
  double rate = 0;
  double peak_rate = 0;
  segments.resize(3);
  reader.read("rate", rate);
  reader.read("peak_rate", peak_rate);
  reader.read("before_s", segments[0].duration_s);
  reader.read("peak_s", segments[1].duration_s);
  reader.read("after_s", segments[2].duration_s);
  for (auto& segment : segments) segment.begin_rate = segment.end_rate = rate;
  segments[1].begin_rate = segments[1].end_rate = peak_rate;
}

void read_profile(TableReader& reader, const std::string& kind, ArrivalSettings& settings) {
  settings.kind = ArrivalSettings::Kind::kProfile;
  settings.has_constant_gaps = reader.read_choice("gaps", {"poisson", "constant"}, "poisson") == "constant";
  if (kind == "steps") return read_steps(reader, settings.segments);
  if (kind == "ramp") return read_ramp(reader, settings.segments);
  if (kind == "spike") return read_spike(reader, settings.segments);
  read_segments(reader, settings.segments);
}

ArrivalSettings WorkloadReader::read_arrivals(const toml::table& table) const {
  using Kind = ArrivalSettings::Kind;
  TableReader reader(table, "arrivals");
  ArrivalSettings settings;
  const auto kind = reader.read_choice("kind",
                                       {"at-once", "constant", "poisson", "gamma", "markov", "profile", "steps",
                                        "ramp", "spike", "replay", "closed"},
                                       "poisson");
  if (kind == "constant" || kind == "poisson" || kind == "gamma") {
    settings.kind = kind == "constant" ? Kind::kConstant : kind == "poisson" ? Kind::kPoisson : Kind::kGamma;
    reader.read("rate", settings.rate);
    if (kind == "gamma") reader.read("burstiness", settings.burstiness);
  } else if (kind == "markov") {
    settings.kind = Kind::kMarkov;
    read_states(reader, settings.states);
  } else if (kind == "replay") {
    settings.kind = Kind::kReplay;
    reader.read("speed", settings.speed);
    reader.read("times_s", settings.times_s);
  } else if (kind == "closed") {
    settings.kind = Kind::kClosed;
    reader.read("users", settings.users);
    read_distribution(reader, "pause_s", settings.pause_s);
  } else if (kind == "at-once") {
    settings.kind = Kind::kAtOnce;
  } else {
    read_profile(reader, kind, settings);
  }
  reader.refuse_unknown_keys();
  return settings;
}

void read_milliseconds(TableReader& reader, std::string_view key, nanoseconds& value) {
  double milliseconds = static_cast<double>(value.count()) / 1e6;
  const auto* node = reader.find(key);
  reader.read(key, milliseconds);
  if (!(milliseconds >= 0 && milliseconds < 1e12)) reader.refuse(*node, key, "milliseconds of at least 0");
  value = nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6));
}

void read_prefix(const toml::node& node, TableReader& parent, PrefixSettings& prefix) {
  if (!node.is_table()) parent.refuse(node, "prefix", "a table with count and tokens");
  TableReader reader(*node.as_table(), parent.name_of("prefix"));
  reader.read("count", prefix.count);
  reader.read("tokens", prefix.tokens);
  reader.read("zipf_exponent", prefix.zipf_exponent);
  reader.refuse_unknown_keys();
}

void WorkloadReader::read_class(const toml::table& table, const std::string& name, ClassSettings& settings) const {
  TableReader reader(table, name);
  auto& request_class = settings.request_class;
  reader.read("name", request_class.name);
  reader.read("share", settings.share);
  reader.read("ignore_eos", request_class.ignore_eos);
  reader.read("max_tokens", request_class.max_tokens);
  read_milliseconds(reader, "ttft_ms", request_class.objectives.time_to_first_token);
  read_milliseconds(reader, "tpot_ms", request_class.objectives.time_per_output_token);
  read_milliseconds(reader, "e2e_ms", request_class.objectives.end_to_end);
  read_distribution(reader, "think_time_s", settings.think_time_s);
  if (const auto* node = reader.find("questions")) {
    settings.content = ClassSettings::Content::kQuestions;
    reader.read("questions", settings.questions_file);
    settings.questions_file = path_of(settings.questions_file);
    reader.read("categories", settings.categories);
    if (reader.find("trace") != nullptr) reader.refuse(*node, "questions", "either questions or a trace");
  } else if (const auto* trace = reader.find("trace")) {
    settings.content = ClassSettings::Content::kTrace;
    if (!trace->is_table()) reader.refuse(*trace, "trace", "a table with file and format");
    read_trace(*trace->as_table(), reader.name_of("trace"), settings.trace);
    reader.read("repeats", settings.repeats);
  } else if (settings.content == ClassSettings::Content::kSynthetic) {
    read_distribution(reader, "prompt_tokens", settings.prompt_tokens);
    read_distribution(reader, "output_tokens", settings.output_tokens);
    read_distribution(reader, "turns", settings.num_turns);
    if (const auto* prefix = reader.find("prefix")) read_prefix(*prefix, reader, settings.prefix);
  }
  reader.refuse_unknown_keys();
}

void WorkloadReader::read_distribution(TableReader& parent, std::string_view key,
                                       DistributionSettings& settings) const {
  using Kind = DistributionSettings::Kind;
  const auto* node = parent.find(key);
  if (node == nullptr) return;
  settings = {};
  if (node->is_number()) return parent.read(key, settings.mean);
  if (!node->is_table()) parent.refuse(*node, key, "a number or a table with a kind");
  TableReader reader(*node->as_table(), parent.name_of(key));
  const auto kind = reader.read_choice(
      "kind", {"fixed", "uniform", "normal", "lognormal", "exponential", "quantiles"}, "fixed");
  if (kind == "fixed") {
    reader.read("value", settings.mean);
  } else {
    reader.read("min", settings.min);
    reader.read("max", settings.max);
  }
  if (kind == "uniform") settings.kind = Kind::kUniform;
  if (kind == "normal" || kind == "lognormal") {
    settings.kind = kind == "normal" ? Kind::kNormal : Kind::kLogNormal;
    reader.read("mean", settings.mean);
    reader.read("stddev", settings.stddev);
  }
  if (kind == "lognormal") {
    reader.read("median", settings.median);
    reader.read("sigma", settings.sigma);
  }
  if (kind == "exponential") {
    settings.kind = Kind::kExponential;
    reader.read("mean", settings.mean);
  }
  if (kind == "quantiles") {
    settings.kind = Kind::kQuantiles;
    reader.read("values", settings.quantiles);
    reader.read("file", settings.file);
    reader.read("key", settings.key);
    settings.file = path_of(settings.file);
  }
  reader.refuse_unknown_keys();
}

void WorkloadReader::read_trace(const toml::table& table, const std::string& name, TraceSettings& settings) const {
  using Format = TraceSettings::Format;
  TableReader reader(table, name);
  const auto format = reader.read_choice("format", {"azure", "mooncake", "burstgpt", "sharegpt", "plan"}, "azure");
  settings.format = format == "azure"      ? Format::kAzure
                    : format == "mooncake" ? Format::kMooncake
                    : format == "burstgpt" ? Format::kBurstGpt
                    : format == "sharegpt" ? Format::kShareGpt
                                           : Format::kPlan;
  reader.read("file", settings.file);
  settings.file = path_of(settings.file);
  reader.read("from_s", settings.from_s);
  reader.read("until_s", settings.until_s);
  reader.read("max_conversations", settings.max_conversations);
  reader.read("length_factor", settings.length_factor);
  reader.read("max_context_tokens", settings.max_context_tokens);
  reader.read("keeps_text", settings.keeps_text);
  reader.read("only_usual_lengths", settings.only_usual_lengths);
  reader.refuse_unknown_keys();
}

}  // namespace

WorkloadSettings read_workload(const toml::table& root, const std::filesystem::path& directory) {
  auto settings = WorkloadReader(root, directory).read();
  try {
    check(settings);
  } catch (const std::runtime_error& error) {
    const auto& place = root.source();
    throw std::runtime_error((place.path ? *place.path + ": " : std::string()) + error.what());
  }
  return settings;
}

}  // namespace troupe::loadgen
