// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/engine_status_json.hpp"

#include <array>
#include <cstddef>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

std::string_view store_state_name(StoreState state) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "opening", "ok", "read_only", "unusable"};
  return kNames[static_cast<std::size_t>(state)];
}

void append_store(std::string& out, const StoreStatus& store) {
  out += ",\"store\":{\"state\":" + json_string(store_state_name(store.state));
  out += ",\"times_damaged\":";
  append_json_integer(out, store.num_damages);
  out += ",\"responses_salvaged\":";
  append_json_integer(out, store.num_salvaged);
  out += ",\"responses_lost\":";
  append_json_integer(out, store.num_lost);
  out += "}";
}

}  // namespace

std::string_view name_of(EngineState state) {
  constexpr std::array<std::string_view, 5> kNames = {"loading", "ready", "draining", "failed", "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(Trouble trouble) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "replacing_device", "device_hangs",
                                                      "engine_hangs"};
  return kNames[static_cast<std::size_t>(trouble)];
}

std::string status_json(std::string_view status, const EngineStatus& engine, bool is_stranger) {
  std::string out = "{\"status\":" + json_string(status);
  if (is_stranger) return out + "}";
  out += ",\"engine\":" + json_string(name_of(engine.state));
  out += ",\"trouble\":" + json_string(name_of(engine.trouble));
  out += ",\"workers_up\":";
  append_json_integer(out, engine.num_workers_up);
  out += ",\"workers\":";
  append_json_integer(out, engine.num_workers);
  const auto add = [&](std::string_view name, std::uint32_t number) {
    out.append(",\"requests_").append(name).append("\":");
    append_json_integer(out, number);
  };
  add("running", engine.num_running);
  add("waiting", engine.num_waiting);
  add("fetching", engine.num_fetching);
  add("encoding", engine.num_encoding);
  add("in_store", engine.num_in_store);
  add("paused", engine.num_paused);
  append_store(out, engine.store);
  out += "}";
  return out;
}

}  // namespace troupe
