// SPDX-License-Identifier: Apache-2.0
// Networks of recurrent cells: LSTMs and GRUs in chains, two of them with attention, and trees.
#include "gpu/networks/recurrent.hpp"

#include "gpu/networks/families/family.hpp"
#include "gpu/networks/recurrent_config.hpp"
#include "gpu/networks/seq2seq.hpp"
#include "gpu/networks/tree_lstm.hpp"

namespace troupe {
namespace {

constexpr Family kRecurrentFamilies[] = {
    {"LstmForCausalLM", "lstm", read_recurrent_config, make_network_of<RecurrentNetwork>},
    {"GruForCausalLM", "gru", read_recurrent_config, make_network_of<RecurrentNetwork>},
    {"LstmForConditionalGeneration", "lstm_seq2seq", read_recurrent_config, make_network_of<Seq2SeqNetwork>},
    {"GruForConditionalGeneration", "gru_seq2seq", read_recurrent_config, make_network_of<Seq2SeqNetwork>},
    {"BinaryTreeLstmForClassification", "binary_tree_lstm", read_recurrent_config,
     make_network_of<TreeLstmNetwork>},
    {"ChildSumTreeLstmForClassification", "child_sum_tree_lstm", read_recurrent_config,
     make_network_of<TreeLstmNetwork>},
};

}  // namespace

extern const std::span<const Family> kRecurrentFamily = kRecurrentFamilies;

}  // namespace troupe
