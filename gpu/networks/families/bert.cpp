// SPDX-License-Identifier: Apache-2.0
// BERT and its relatives: encoders, with a head that classifies or without.
#include "gpu/networks/bert.hpp"

#include "gpu/networks/bert_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

constexpr Family kBertFamilies[] = {
    {"BertModel", "bert", read_bert_config, make_network_of<BertNetwork>},
    {"RobertaModel", "roberta", read_bert_config, make_network_of<BertNetwork>},
    {"XLMRobertaModel", "xlm-roberta", read_bert_config, make_network_of<BertNetwork>},
    {"DistilBertModel", "distilbert", read_bert_config, make_network_of<BertNetwork>},
    {"AlbertModel", "albert", read_bert_config, make_network_of<BertNetwork>},
    {"BertForSequenceClassification", "", read_bert_config, make_network_of<BertNetwork>},
    {"RobertaForSequenceClassification", "", read_bert_config, make_network_of<BertNetwork>},
    {"XLMRobertaForSequenceClassification", "", read_bert_config, make_network_of<BertNetwork>},
    {"DistilBertForSequenceClassification", "", read_bert_config, make_network_of<BertNetwork>},
    {"AlbertForSequenceClassification", "", read_bert_config, make_network_of<BertNetwork>},
};

}  // namespace

extern const std::span<const Family> kBertFamily = kBertFamilies;

}  // namespace troupe
