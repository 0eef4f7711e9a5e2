package main

import "encoding/json"

// fields holds the members of a JSON object that have no field of their own, so that they travel
// on to the DSPs.
type fields map[string]json.RawMessage

// take moves one member out into its typed field; an absent one leaves the field as it is.
func (f fields) take(name string, field any) error {
	raw, found := f[name]
	if !found {
		return nil
	}
	delete(f, name)
	return json.Unmarshal(raw, field)
}

// put writes one typed field back, and leaves out what was absent.
func (f fields) put(name string, present bool, field any) error {
	if !present {
		return nil
	}
	raw, err := json.Marshal(field)
	f[name] = raw
	return err
}

// keep puts back a member that was never decoded.
func (f fields) keep(name string, raw json.RawMessage) {
	if raw != nil {
		f[name] = raw
	}
}

// bidRequest is an OpenRTB bid request: what the exchange reads, and the rest as it came.
type bidRequest struct {
	ID   string
	Imp  []imp
	At   int
	Tmax int64 // milliseconds
	Cur  []string
	Rest fields
}

func (r *bidRequest) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &r.Rest); err != nil {
		return err
	}
	return firstError(
		r.Rest.take("id", &r.ID),
		r.Rest.take("imp", &r.Imp),
		r.Rest.take("at", &r.At),
		r.Rest.take("tmax", &r.Tmax),
		r.Rest.take("cur", &r.Cur),
	)
}

// encode writes the body of a call. It is no MarshalJSON, whose result json.Marshal would read and
// copy once more.
func (r bidRequest) encode() ([]byte, error) {
	all := copyOf(r.Rest, 5)
	err := firstError(
		all.put("id", true, r.ID),
		all.put("imp", true, r.Imp),
		all.put("at", r.At != 0, r.At),
		all.put("tmax", r.Tmax != 0, r.Tmax),
		all.put("cur", r.Cur != nil, r.Cur),
	)
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// imp is one impression for sale.
type imp struct {
	ID          string
	Bidfloor    json.Number
	Bidfloorcur string
	Banner      json.RawMessage
	Video       json.RawMessage
	Audio       json.RawMessage
	Native      json.RawMessage
	Rest        fields
}

func (i *imp) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &i.Rest); err != nil {
		return err
	}
	return firstError(
		i.Rest.take("id", &i.ID),
		i.Rest.take("bidfloor", &i.Bidfloor),
		i.Rest.take("bidfloorcur", &i.Bidfloorcur),
		i.Rest.take("banner", &i.Banner),
		i.Rest.take("video", &i.Video),
		i.Rest.take("audio", &i.Audio),
		i.Rest.take("native", &i.Native),
	)
}

func (i imp) MarshalJSON() ([]byte, error) {
	all := copyOf(i.Rest, 7)
	err := firstError(
		all.put("id", true, i.ID),
		all.put("bidfloor", i.Bidfloor != "", i.Bidfloor),
		all.put("bidfloorcur", i.Bidfloorcur != "", i.Bidfloorcur),
	)
	if err != nil {
		return nil, err
	}
	all.keep("banner", i.Banner)
	all.keep("video", i.Video)
	all.keep("audio", i.Audio)
	all.keep("native", i.Native)
	return json.Marshal(all)
}

// bidResponse is the answer of a DSP, and the answer of the exchange.
type bidResponse struct {
	ID      string    `json:"id"`
	Seatbid []seatBid `json:"seatbid"`
	Cur     string    `json:"cur,omitempty"`
}

type seatBid struct {
	Bid  []bid  `json:"bid"`
	Seat string `json:"seat,omitempty"`
}

type bid struct {
	ID      string          `json:"id"`
	Impid   string          `json:"impid"`
	Price   json.Number     `json:"price"`
	Nurl    string          `json:"nurl,omitempty"`
	Burl    string          `json:"burl,omitempty"`
	Lurl    string          `json:"lurl,omitempty"`
	Adm     string          `json:"adm,omitempty"`
	Adid    string          `json:"adid,omitempty"`
	Adomain []string        `json:"adomain,omitempty"`
	Bundle  string          `json:"bundle,omitempty"`
	Iurl    string          `json:"iurl,omitempty"`
	Cid     string          `json:"cid,omitempty"`
	Crid    string          `json:"crid,omitempty"`
	Cat     []string        `json:"cat,omitempty"`
	Attr    []int           `json:"attr,omitempty"`
	Dealid  string          `json:"dealid,omitempty"`
	W       int             `json:"w,omitempty"`
	H       int             `json:"h,omitempty"`
	Dur     int             `json:"dur,omitempty"`
	Mtype   int             `json:"mtype,omitempty"`
	Exp     int             `json:"exp,omitempty"`
	Ext     json.RawMessage `json:"ext,omitempty"`
}

func copyOf(rest fields, more int) fields {
	all := make(fields, len(rest)+more)
	for name, raw := range rest {
		all[name] = raw
	}
	return all
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
