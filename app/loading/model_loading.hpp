// SPDX-License-Identifier: Apache-2.0
// From options to everything the engine serves: tokenizer, template, network,
// and a factory of devices over weights that are packed once. The weights are
// loaded with the first device.
#pragma once

#include <cstdint>
#include <string>

#include "actors/engine.hpp"
#include "app/options/options.hpp"
#include "gpu/cpu/cpu_cores.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/pages/host_pages.hpp"

namespace troupe {

struct LoadedModel {
  Options options;  // as they are in force: see with_device_numbers()
  ServedModel served;
  DeviceFactory make_device;
  ModelConfig config;
  std::uint32_t context_length = 0;
  std::uint64_t planned_bytes = 0;        // of the device's memory; 0: it needs none
  std::shared_ptr<HostPages> host_pages;  // null: no host tier
  std::string computation;                // all that decides a KV page's bytes but the files
  std::string device_summary;             // "cpu, bf16, 2 threads"
};

// Throws ConfigurationError if there can't be a model where one of them is said to be.
void check_model_directory(const Options& options);

// Throws ConfigurationError if clients can't be asked to call a model so.
void check_model_name(const Options& options);

// Loads one model, the options' first. cores: as choose_backend(). Throws
// std::runtime_error that names the file and the reason.
LoadedModel load_model(const Options& options, std::shared_ptr<CpuCores> cores = nullptr);

// Numbers that were left to the device are the CPU's.
EngineOptions engine_options(const Options& options);

// The first model's.
std::string served_name(const Options& options);

}  // namespace troupe
