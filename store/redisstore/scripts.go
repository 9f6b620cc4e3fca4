package redisstore

import (
	_ "embed"

	"github.com/redis/rueidis"
)

//go:embed memory.lua
var memoryLua string

//go:embed beat.lua
var beatLua string

//go:embed publish.lua
var publishLua string

//go:embed lapse.lua
var lapseLua string

//go:embed pay.lua
var payLua string

//go:embed leave.lua
var leaveLua string

//go:embed forget.lua
var forgetLua string

// scripts are the deeds of signals, each of which happens whole on one server.
type scripts struct{ beat, publish, lapse, pay, leave, forget *rueidis.Lua }

func newScripts() scripts {
	of := func(text string) *rueidis.Lua { return rueidis.NewLuaScript(memoryLua + text) }
	return scripts{beat: of(beatLua), publish: of(publishLua), lapse: of(lapseLua), pay: of(payLua), leave: of(leaveLua), forget: of(forgetLua)}
}
