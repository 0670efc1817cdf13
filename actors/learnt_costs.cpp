// SPDX-License-Identifier: Apache-2.0
#include "actors/learnt_costs.hpp"

#include <exception>
#include <string>

#include "store/encoder_cost_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {

void keep_learnt_costs(const ActorEnvironment& environment, const ModelCores& cores) {
  const auto& directory = environment.options.store.directory;
  for (ModelIndex model = 0; directory && model < cores.num_models(); ++model) {
    const EncoderCore* encoder = cores.encoder(model);
    const std::string& key = environment.models[model].served.encoder_cost_key;
    if (encoder == nullptr || key.empty() || encoder->costs().num_learnt() == 0) continue;
    try {
      write_encoder_costs(*directory, key, encoder->costs());
    } catch (const std::exception& error) {
      log(LogLevel::kWarning, "what was learnt of an encoder's batches is not kept",
          {{"reason", error.what()}});
    }
  }
}

}  // namespace troupe
