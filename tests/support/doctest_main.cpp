// SPDX-License-Identifier: Apache-2.0
// Exit status 77 where every case that ran said "SKIPPED: " and nothing failed, so that
// ctest, which runs one case at a time, shows it as skipped and a failure as a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <string_view>

namespace {

constexpr int kSkipped = 77;

class SkipCounter final : public doctest::IReporter {
 public:
  static inline unsigned num_run = 0, num_skipped = 0;

  explicit SkipCounter(const doctest::ContextOptions& /*options*/) {}
  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_start(const doctest::TestCaseData& /*test*/) override {
    num_run += 1;
    has_skipped_ = false;
  }
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {
    num_skipped += has_skipped_ ? 1 : 0;
  }
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*assertion*/) override {}
  void log_message(const doctest::MessageData& message) override {
    has_skipped_ = has_skipped_ || std::string_view(message.m_string.c_str()).starts_with("SKIPPED: ");
  }
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}

 private:
  bool has_skipped_ = false;
};

DOCTEST_REGISTER_LISTENER("skips", 1, SkipCounter);

}  // namespace

int main(int argc, char** argv) {
  const int status = doctest::Context(argc, argv).run();
  const bool have_all_skipped = SkipCounter::num_run > 0 && SkipCounter::num_skipped == SkipCounter::num_run;
  return status == 0 && have_all_skipped ? kSkipped : status;
}
