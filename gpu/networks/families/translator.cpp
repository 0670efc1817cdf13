// SPDX-License-Identifier: Apache-2.0
// Marian and M2M100: transformer encoder-decoders.
#include "gpu/networks/translator.hpp"

#include "gpu/networks/families/family.hpp"
#include "gpu/networks/translator_config.hpp"

namespace troupe {
namespace {

constexpr Family kTranslatorFamilies[] = {
    {"MarianMTModel", "marian", read_translator_config, make_network_of<TranslatorNetwork>},
    {"M2M100ForConditionalGeneration", "m2m_100", read_translator_config, make_network_of<TranslatorNetwork>},
};

}  // namespace

extern const std::span<const Family> kTranslatorFamily = kTranslatorFamilies;

}  // namespace troupe
