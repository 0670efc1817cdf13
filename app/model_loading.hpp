// SPDX-License-Identifier: Apache-2.0
// From options to everything the engine serves: tokenizer, template, network,
// and a factory of devices over weights that are packed once. The weights are
// loaded with the first device.
#pragma once

#include <cstdint>
#include <string>

#include "actors/engine.hpp"
#include "app/options.hpp"
#include "gpu/host_pages.hpp"

namespace troupe {

struct LoadedModel {
  Options options;  // as they are in force: see with_device_numbers()
  ServedModel served;
  DeviceFactory make_device;
  ModelConfig config;
  std::uint32_t context_length = 0;
  std::shared_ptr<HostPages> host_pages;  // null: no host tier
  std::string computation;                // all that decides a KV page's bytes but the files
  std::string device_summary;             // "host, bf16, 2 threads"
};

// Throws std::runtime_error that names the file and the reason.
LoadedModel load_model(const Options& options);

// Numbers that were left to the device are the host's.
EngineOptions engine_options(const Options& options);

// The name clients call it by: the option, else the directory's name.
std::string served_name(const Options& options);

}  // namespace troupe
