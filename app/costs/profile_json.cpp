// SPDX-License-Identifier: Apache-2.0
#include "app/costs/profile_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

// To a tenth of a picosecond: what is beyond is noise, and hard to read.
double readable(double value) { return std::round(value * 1e4) / 1e4; }

// A word, or what JSON has for numbers and switches.
Json json_of(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json(text) : json;
}

Json serving_json(const ProfiledServer& serving) {
  Json json = {{"context_length", serving.limits.context_length},
               {"vocabulary_size", serving.limits.vocabulary_size},
               {"page_size", serving.page_size},
               {"num_pages", serving.num_pages},
               {"num_host_pages", serving.num_host_pages},
               {"recompute_constant", serving.recompute_cost.constant},
               {"recompute_attention", serving.recompute_cost.attention},
               {"load_from_host_ns", {serving.load_from_host.fixed, serving.load_from_host.per_page}},
               {"num_disk_pages", serving.num_disk_pages},
               {"disk_ns", {serving.disk.fixed, serving.disk.per_page}}};
  ServingSettings settings = serving.settings;
  for (const auto& setting : serving_table())
    json[profile_name(setting.flag)] = json_of(text_of(setting.field.in(settings), setting.rule()));
  return json;
}

Json flags_json(std::span<const ProfiledFlag> flags, bool are_default) {
  Json json = Json::object();
  for (const ProfiledFlag& flag : flags)
    if (flag.is_default == are_default) json[flag.name] = flag.value;
  return json;
}

Json iteration_json(const IterationCost& cost) {
  Json slopes = Json::array();
  for (const double slope : cost.slopes) slopes.push_back(readable(slope));
  return {{"fixed_ns", readable(cost.fixed)},
          {"knots", cost.knots},
          {"slopes_ns", std::move(slopes)},
          {"per_sequence_ns", readable(cost.per_sequence)},
          {"per_output_row_ns", readable(cost.per_output_row)},
          {"per_decode_key_ns", readable(cost.per_decode_key)},
          {"per_prefill_pair_ns", readable(cost.per_prefill_pair)}};
}

const char* graph_kind_name(GraphKind graphs) {
  switch (graphs) {
    case GraphKind::kChain: break;
    case GraphKind::kEncodeDecode: return "encode_decode";
    case GraphKind::kTree: return "tree";
  }
  return "chain";
}

Json cells_json(const ProfiledCells& cells) {
  Json types = Json::array();
  for (const ProfiledCell& cell : cells.types)
    types.push_back({{"name", cell.name},
                     {"priority", cell.priority},
                     {"max_batch", cell.max_batch},
                     {"cost", iteration_json(cell.cost)}});
  return {
      {"graphs", graph_kind_name(cells.graphs)}, {"num_rows", cells.num_rows}, {"types", std::move(types)}};
}

Json overheads_json(const ServingOverheads& overheads) {
  return {{"request_ns", readable(overheads.request)},
          {"per_prompt_token_ns", readable(overheads.per_prompt_token)},
          {"turnaround_ns", readable(overheads.turnaround)},
          {"iteration_ns", readable(overheads.iteration)},
          {"iteration_per_sequence_ns", readable(overheads.iteration_per_sequence)},
          {"end_ns", readable(overheads.end)}};
}

Json sample_json(const CostSample& sample) {
  return {{"tokens", sample.shape.num_tokens},
          {"sequences", sample.shape.num_sequences},
          {"output_rows", sample.shape.num_output_rows},
          {"decode_keys", sample.shape.decode_keys},
          {"prefill_pairs", sample.shape.prefill_pairs},
          {"ns", std::round(sample.nanoseconds)},
          {"spread", readable(sample.spread)}};
}

}  // namespace

std::string profile_json(const CostProfile& profile, std::span<const CostSample> samples) {
  const FitQuality fit = assess_fit(profile.iteration, samples);
  Json json = {{"format", "troupe cost profile 1"},
               {"model", profile.model},
               {"device", profile.device},
               {"hardware", profile.hardware},
               {"measured", profile.measured},
               {"flags", flags_json(profile.flags, false)},
               {"default_flags", flags_json(profile.flags, true)},
               {"serving", serving_json(profile.serving)},
               {"iteration", iteration_json(profile.iteration)},
               {"residuals", profile.residuals},
               {"overheads", overheads_json(profile.overheads)},
               {"fit",
                {{"mean_error", readable(fit.mean_error)},
                 {"p90_error", readable(fit.p90_error)},
                 {"worst_error", readable(fit.worst_error)}}},
               {"samples", Json::array()}};
  if (profile.cells) json["cells"] = cells_json(*profile.cells);
  for (const auto& sample : samples) json["samples"].push_back(sample_json(sample));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace troupe
