// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/network.hpp"

#include <stdexcept>
#include <string>

#include "gpu/model/families.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/networks/bert.hpp"
#include "gpu/networks/gemma.hpp"
#include "gpu/networks/gpt.hpp"
#include "gpu/networks/lfm2.hpp"
#include "gpu/networks/llama.hpp"
#include "gpu/networks/recurrent.hpp"
#include "gpu/networks/seq2seq.hpp"
#include "gpu/networks/translator.hpp"
#include "gpu/networks/tree_lstm.hpp"

namespace troupe {

void check_program_request(const Network& network, CellId cell, DataType compute_type) {
  if (const auto cells = network.cells(); cell >= cells.size()) {
    throw std::runtime_error("the network has no cell " + std::to_string(cell) + ", only " +
                             std::to_string(cells.size()));
  }
  if (compute_type == DataType::kI32) {
    throw std::runtime_error("a program computes in f32, f16 or bf16, not " +
                             std::string(name_of(compute_type)));
  }
}

std::vector<Program> build_programs(const Network& network, ProgramShape shape, DataType compute_type) {
  std::vector<Program> programs;
  for (CellId cell = 0; cell < network.cells().size(); ++cell)
    programs.push_back(network.build_program(cell, shape, compute_type));
  return programs;
}

std::unique_ptr<Network> load_network(const std::filesystem::path& model) {
  return make_network(load_model_config(model));
}

std::unique_ptr<Network> make_network(const ModelConfig& config) {
  const FamilyNames* names = find_family(config.architecture);
  if (names == nullptr) {
    throw std::runtime_error("the architecture \"" + config.architecture + "\" is not supported");
  }
  switch (names->family) {
    case Family::kBert: return std::make_unique<BertNetwork>(config);
    case Family::kGemma2:
    case Family::kGemma3: return std::make_unique<GemmaNetwork>(config);
    case Family::kLfm2: return std::make_unique<Lfm2Network>(config);
    case Family::kRecurrent: return std::make_unique<RecurrentNetwork>(config);
    case Family::kSeq2Seq: return std::make_unique<Seq2SeqNetwork>(config);
    case Family::kTranslator: return std::make_unique<TranslatorNetwork>(config);
    case Family::kTreeLstm: return std::make_unique<TreeLstmNetwork>(config);
    case Family::kGpt2:
    case Family::kGptNeoX:
    case Family::kOpt:
    case Family::kGptJ: return std::make_unique<GptNetwork>(config);
    default: return std::make_unique<LlamaNetwork>(config);  // or what differs by its configuration alone
  }
}

}  // namespace troupe
