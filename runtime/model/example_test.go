package model_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// echo is a model that repeats the message word by word.
type echo struct{}

func (echo) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		for word := range strings.FieldsSeq(last.Text()) {
			if ctx.Err() != nil {
				yield(model.Part{}, context.Cause(ctx))
				return
			}
			if !yield(model.Part{Kind: model.KindText, Text: word + " "}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
	}
}

func ExampleModel() {
	var m model.Model = echo{}
	request := &model.Request{Messages: []model.Message{model.UserText("to be or not")}}
	for part, err := range m.Stream(context.Background(), request) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if part.Kind == model.KindText {
			fmt.Printf("%q\n", part.Text)
		}
	}
	// Output:
	// "to "
	// "be "
	// "or "
	// "not "
}

func ExampleCollector_Collect() {
	request := &model.Request{Messages: []model.Message{model.UserText("to be or not")}}
	response, err := new(collect.Collector).Collect(echo{}.Stream(context.Background(), request))
	fmt.Println(response.Message.Text(), response.StopReason, err)
	// Output: to be or not  end_turn <nil>
}
