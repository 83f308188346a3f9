// Package label builds, signs and verifies the implicit label that GB 45438-2025 requires in the
// metadata of generated content. It has no state and no dependency outside the standard library.
// Decoding a label takes time and memory in proportion to its JSON, which the caller limits.
//
//	l, err := label.New(label.Generated, producer, produceID)
//	if err != nil {
//		return err
//	}
//	l = l.Sign(key)
//	data, err := json.Marshal(l) // {"Label":"1","ContentProducer":"...", ...}
//
// [Label.Verify] reports whether a label is unchanged since it was signed with one of the given
// keys.
//
// A content producer is identified by a code of 27 characters, see [CheckProducer]. It contains the
// unified social credit code of a Chinese organization, see [CheckUSCC].
package label
