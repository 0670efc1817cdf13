// SPDX-License-Identifier: Apache-2.0
#include "app/perplexity.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "app/options/usage_error.hpp"

using namespace troupe;

TEST_CASE(
    "perplexity: windows follow at the stride, and a token counts in the first that it does not begin") {
  using Windows = std::vector<TextWindow>;
  CHECK(text_windows(10, 4, 2) == Windows{{0, 4, 1}, {2, 6, 4}, {4, 8, 6}, {6, 10, 8}});
  CHECK(text_windows(10, 4, 3) == Windows{{0, 4, 1}, {3, 7, 4}, {6, 10, 7}});
  CHECK(text_windows(10, 4, 4) == Windows{{0, 4, 1}, {4, 8, 5}, {8, 10, 9}});
  CHECK(text_windows(9, 4, 4) == Windows{{0, 4, 1}, {4, 8, 5}});  // nothing is before the last token
  CHECK(text_windows(3, 4, 2) == Windows{{0, 3, 1}});
  CHECK(text_windows(1, 4, 2).empty());
}

TEST_CASE("perplexity: the text is a file's, or standard input's for -, and never empty") {
  std::istringstream input("from standard input\n"), none;
  CHECK(text_of({.options = {}, .model = {}, .text = "-"}, input) == "from standard input\n");
  CHECK_THROWS_AS(text_of({.options = {}, .model = {}, .text = "-"}, none), UsageError);
  CHECK_THROWS_WITH_AS(text_of({.options = {}, .model = {}, .text = "/nowhere/text"}, none),
                       "--text: /nowhere/text: can't be read", std::runtime_error);
  CHECK_THROWS_WITH_AS(text_of({.options = {}, .model = {}, .text = "/"}, none), "--text: /: can't be read",
                       std::runtime_error);
}
