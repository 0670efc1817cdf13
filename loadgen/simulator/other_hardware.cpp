// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/other_hardware.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <stdexcept>

namespace troupe::loadgen {
namespace {

// As their makers' data sheets have it: SXM where there is one.
constexpr std::array<Hardware, 4> kKnown = {{
    {.name = "a100", .memory_bandwidth = 2.039e12, .bf16_flops = 312e12, .host_link = 32e9},
    {.name = "h100", .memory_bandwidth = 3.35e12, .bf16_flops = 989e12, .host_link = 64e9},
    {.name = "h200", .memory_bandwidth = 4.8e12, .bf16_flops = 989e12, .host_link = 64e9},
    {.name = "l40s", .memory_bandwidth = 0.864e12, .bf16_flops = 362e12, .host_link = 32e9},
}};

// "cuda:0, NVIDIA H100 80GB HBM3, bf16" names the h100.
bool names(std::string device, const Hardware& hardware) {
  std::transform(device.begin(), device.end(), device.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return device.find(hardware.name) != std::string::npos;
}

void scale(IterationCost& cost, double memory, double compute) {
  for (double* part : {&cost.fixed, &cost.per_sequence, &cost.per_decode_key}) *part *= memory;
  for (double* part : {&cost.per_output_row, &cost.per_prefill_pair}) *part *= compute;
  for (double& slope : cost.slopes) slope *= compute;
}

std::string factor_text(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", factor);
  return text;
}

}  // namespace

const Hardware& hardware_from_name(std::string_view name) {
  std::string known;
  for (const Hardware& hardware : kKnown) {
    if (hardware.name == name) return hardware;
    known += (known.empty() ? "" : ", ") + std::string(hardware.name);
  }
  throw std::runtime_error("expected a device (" + known + "), got '" + std::string(name) + "'");
}

OtherHardware on_other_hardware(CostProfile measured, const Hardware& from, const Hardware& to,
                                std::uint32_t num_devices) {
  if (!names(measured.device, from))
    throw std::runtime_error("--measured-on: the profile is of the device '" + measured.device +
                             "', which is no " + std::string(from.name));
  const double memory = from.memory_bandwidth / to.memory_bandwidth / num_devices;
  const double compute = from.bf16_flops / to.bf16_flops / num_devices;
  const double link = from.host_link / to.host_link / num_devices;
  scale(measured.iteration, memory, compute);
  if (measured.cells)
    for (ProfiledCell& cell : measured.cells->types) scale(cell.cost, memory, compute);
  measured.serving.load_from_host.per_page *= link;
  // In nanoseconds where loads have a cost; a price without a unit is not changed by any factor.
  measured.serving.recompute_cost.constant *= compute;
  for (double& attention : measured.serving.recompute_cost.attention) attention *= compute;
  const std::string devices =
      (num_devices > 1 ? std::to_string(num_devices) + " x " : "") + std::string(to.name);
  measured.device = devices + " (assumed from " + measured.device + ")";
  return {
      .profile = std::move(measured),
      .assumptions = {
          devices + " for " + std::string(from.name) + ", by their data sheets; nothing of it was measured",
          "fixed time, sequences and decoded keys are bound by memory: " + factor_text(memory) +
              " of the time",
          "query tokens, drawn rows and prefill pairs are bound by computing: " + factor_text(compute),
          "copies of pages are bound by the link to the host: " + factor_text(link),
          num_devices > 1 ? "devices share a batch evenly, and talking to each other takes no time"
                          : "the server and its client add what they added",
          "as many KV pages as measured; --num-pages says otherwise"}};
}

}  // namespace troupe::loadgen
