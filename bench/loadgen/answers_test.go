package main

import "testing"

func header() *writer {
	w := &writer{}
	w.i32(7)
	w.tags()
	return w
}

func TestAnErrorInOnePartitionOfACommitIsSeen(t *testing.T) {
	w := header()
	w.i32(0)
	w.count(1)
	w.str("topic")
	w.count(2)
	w.i32(0)
	w.i16(0)
	w.tags()
	w.i32(1)
	w.i16(22)
	w.tags()
	w.tags()
	w.tags()
	if code, err := readCommit(w.data); code != 22 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	if _, err := readCommit(w.data[:len(w.data)-8]); err == nil {
		t.Error("a cut answer is an error")
	}
}

func TestAMissingOffsetIsNoSuccess(t *testing.T) {
	w := header()
	w.i32(0)
	w.count(1)
	w.str("group")
	w.count(1)
	w.str("topic")
	w.count(1)
	w.i32(0)
	w.i64(-1)
	w.i32(-1)
	w.str("")
	w.i16(0)
	w.tags()
	w.tags()
	w.i16(0)
	w.tags()
	w.tags()
	if code, err := readOffsetFetch(w.data); code != noOffset || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestWholeBatchesAreCountedAndACutOneIsNot(t *testing.T) {
	batch := recordBatch(3, 100)
	var a fetchAnswer
	a.countBatches(append(append([]byte{}, batch...), batch[:len(batch)-1]...))
	if a.records != 3 || a.bytes != int64(len(batch)) || a.next != 3 {
		t.Errorf("%+v", a)
	}
}

func TestProcessListsAreNamed(t *testing.T) {
	found, err := parseProcesses("a=1,2;b=3")
	if err != nil || len(found["a"]) != 2 || found["b"][0] != 3 {
		t.Errorf("%v %v", found, err)
	}
	if _, err := parseProcesses("1,2"); err == nil {
		t.Error("a list without a name is refused")
	}
}
