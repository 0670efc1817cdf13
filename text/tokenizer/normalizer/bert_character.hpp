// SPDX-License-Identifier: Apache-2.0
// The classes of characters that BERT's tokenizers go by. Hugging Face's take
// categories from Unicode 8, and so do these: whatever was assigned later is
// neither a control, nor a mark, nor punctuation.
#pragma once

namespace troupe {

bool is_bert_space(char32_t code_point);
// Removed: controls, format characters and private use.
bool is_bert_control(char32_t code_point);
// A combining mark that takes no space, such as an accent.
bool is_bert_mark(char32_t code_point);
// A word by itself.
bool is_bert_punctuation(char32_t code_point);
// Chinese characters, of whatever language: words by themselves, too.
bool is_bert_ideograph(char32_t code_point);

}  // namespace troupe
