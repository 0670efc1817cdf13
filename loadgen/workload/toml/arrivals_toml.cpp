// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/arrivals_toml.hpp"

#include "loadgen/workload/toml/distribution_toml.hpp"
#include "loadgen/workload/toml/table_reader.hpp"

namespace troupe::loadgen {
namespace {

using Kind = ArrivalSettings::Kind;

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
  settings.kind = Kind::kProfile;
  settings.has_constant_gaps = reader.read_choice("gaps", {"poisson", "constant"}, "poisson") == "constant";
  if (kind == "steps") return read_steps(reader, settings.segments);
  if (kind == "ramp") return read_ramp(reader, settings.segments);
  if (kind == "spike") return read_spike(reader, settings.segments);
  read_segments(reader, settings.segments);
}

}  // namespace

ArrivalSettings read_arrivals(const toml::table& table, const std::filesystem::path& directory) {
  TableReader reader(table, "arrivals");
  ArrivalSettings settings;
  const auto kind = reader.read_choice("kind",
                                       {"at-once", "constant", "poisson", "gamma", "markov", "profile",
                                        "steps", "ramp", "spike", "replay", "closed"},
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
    read_distribution(reader, "pause_s", directory, settings.pause_s);
  } else if (kind == "at-once") {
    settings.kind = Kind::kAtOnce;
  } else {
    read_profile(reader, kind, settings);
  }
  reader.refuse_unknown_keys();
  return settings;
}

}  // namespace troupe::loadgen
