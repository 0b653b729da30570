// The reader of pickles. tests/unit/trace/test_reader_agreement.py compares it with another one on many files; these
// tests also run under the sanitizers, on copies whose end is the end of an allocation.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "pickles/read_pickle.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using namespace pickles;
using namespace std::string_literals;

constexpr std::uint64_t kEnough = std::uint64_t{1} << 30;

/// A pickle, and what was read of it.
struct Read {
  explicit Read(const std::string& pickle, std::uint64_t allowed = kEnough)
      : bytes(std::make_unique<std::byte[]>(pickle.size())) {
    std::memcpy(bytes.get(), pickle.data(), pickle.size());
    result = read_pickle({bytes.get(), pickle.size()}, allowed, {});
  }
  [[nodiscard]] const Document& document() const { return *std::get<std::unique_ptr<Document>>(result); }
  [[nodiscard]] const Fault* fault() const { return std::get_if<Fault>(&result); }

  std::unique_ptr<std::byte[]> bytes;
  std::variant<std::unique_ptr<Document>, Fault> result;
};

const std::string kSmall =
    "\x80\x04}\x94(\x8c\x01"
    "a\x94K\x05\x8c\x01"
    "b]\x94(\x8a\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7fJ\xff\xff\xff\xffG?"
    "\xf8\x00\x00\x00\x00\x00\x00\x88Nh\x01"
    "eu."s;

TEST(a_pickle_is_read_into_tables) {
  const Read read(kSmall);
  EXPECT(read.fault() == nullptr);
  const Document& document = read.document();
  const auto number = document.get(document.root, "a");
  EXPECT(number && number->kind() == Kind::integer && number->number() == 5);
  EXPECT(!document.get(document.root, "c"));
  const auto list = document.get(document.root, "b");
  EXPECT(list && list->kind() == Kind::list);
  const auto items = document.items(*list);
  EXPECT_EQ(items.size(), 6U);
  EXPECT(items[0].kind() == Kind::wide);
  EXPECT(!document.whole(items[0]) && !document.signed_whole(items[0]));
  EXPECT_EQ(document.signed_whole(items[1]).value_or(0), -1);
  EXPECT_EQ(document.reals[items[2].place()], 1.5);
  EXPECT(items[3] == Value(Kind::boolean, 1) && items[4].kind() == Kind::none);
  EXPECT(document.text(items[5]) == "a");
}

TEST(numbers_of_64_bits_are_whole) {
  const Read read("\x80\x04\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x86."s);
  const auto items = read.document().items(read.document().root);
  EXPECT_EQ(read.document().whole(items[0]).value_or(0), ~std::uint64_t{0});
  EXPECT(!read.document().signed_whole(items[0]));
  EXPECT_EQ(read.document().signed_whole(items[1]).value_or(0), std::numeric_limits<std::int64_t>::min());
}

TEST(every_prefix_of_a_pickle_is_refused) {
  for (std::size_t length = 0; length < kSmall.size(); ++length)
    EXPECT(Read(kSmall.substr(0, length)).fault() != nullptr);
}

TEST(every_wrong_byte_is_read_or_refused) {
  for (std::size_t place = 0; place < kSmall.size(); ++place)
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string changed = kSmall;
      changed[place] = static_cast<char>(byte);
      const Read read(changed);
      EXPECT(read.fault() != nullptr || read.document().texts.size() <= changed.size());
    }
}

TEST(a_fault_names_its_kind_and_its_byte) {
  const Read read("\x80\x04]cos\nsystem\n."s);
  EXPECT(read.fault() != nullptr && read.fault()->kind == FaultKind::opcode);
  EXPECT_EQ(read.fault()->at, 3U);
  EXPECT_EQ(read.fault()->number, std::uint64_t{'c'});
}

TEST(a_pickle_that_takes_too_much_memory_is_refused) {
  const Read read("\x80\x04" + std::string(100'000, ']') + ".", 1'000'000);
  EXPECT(read.fault() != nullptr && read.fault()->kind == FaultKind::memory);
  EXPECT(read.fault()->at > 2);
}

TEST(lists_with_equal_items_share_them_until_one_grows) {
  const Read read("\x80\x04]\x94(K\x01K\x02"s + "e]\x94(K\x01K\x02"s + "e]\x94(K\x01K\x02"s + "eh\x00K\x03"s +
                  "a(h\x00h\x01h\x02t."s);
  EXPECT(read.fault() == nullptr);
  const Document& document = read.document();
  const auto lists = document.items(document.root);
  EXPECT_EQ(document.items(lists[0]).size(), 3U);
  EXPECT_EQ(document.items(lists[1]).size(), 2U);
  EXPECT(document.items(lists[1]).data() == document.items(lists[2]).data());
}

TEST(dicts_with_equal_keys_share_a_shape_and_later_entries_make_a_dict_loose) {
  const std::string keys = "(\x8c\x01xK\x01\x8c\x01yK\x02u"s;
  const Read read("\x80\x04}\x94" + keys + "}\x94" + keys +
                  "\x8c\x01zNs\x8c\x01xK\x07s}\x94(\x8c\x01xK\x01\x8c\x01xK\x09u(h\x00h\x01h\x02t."s);
  EXPECT(read.fault() == nullptr);
  const Document& document = read.document();
  const auto dicts = document.items(document.root);
  EXPECT(document.dicts.shape_of(dicts[0].place()) != Dicts::kLoose);
  EXPECT(document.dicts.shape_of(dicts[1].place()) == Dicts::kLoose);
  EXPECT_EQ(document.dicts.num_entries(dicts[1].place()), 3U);
  EXPECT_EQ(document.get(dicts[1], "x")->number(), 7);
  EXPECT_EQ(document.get(dicts[0], "x")->number(), 1);
  EXPECT_EQ(document.dicts.num_entries(dicts[2].place()), 1U);
  EXPECT_EQ(document.get(dicts[2], "x")->number(), 9);
}

}  // namespace
}  // namespace memlake
